"""Random DDL commands on two databases, with some documents."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from bson import DatetimeMS, Int64

from tests.oracle.comparison import Document

Case = tuple[Document, str]
"""A command and the short name of its database."""

_NAMES: Final = ("c", "d", "e", "f")
_FIELDS: Final = ("a", "b", "a.b", "x")
_COLLATIONS: Final[tuple[Document, ...]] = (
    {"locale": "fr"}, {"locale": "en", "strength": 2}, {"locale": "simple"},
)  # fmt: skip
_VALIDATORS: Final[tuple[Document, ...]] = (
    {}, {"a": {"$exists": False}}, {"x": {"$ne": "never"}}, {"$jsonSchema": {"bsonType": "object"}},
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (1, 2, 2.5, "x", None, [1, 2], {"b": 1}, Int64(3), [{"b": 1}, {"b": 2}])


class RandomDdl:
    """A sequence of commands that is the same for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._next_id = 0

    def cases(self, number: int) -> Iterator[Case]:
        makers: list[tuple[Callable[[], Case], int]] = [
            (self._create, 6), (self._insert, 8), (self._index, 8), (self._drop_index, 3),
            (self._coll_mod, 6), (self._coll_mod_index, 4), (self._rename, 5), (self._drop, 3),
            (self._drop_database, 1), (self._view, 3), (self._change_view, 2), (self._out, 2),
            (self._convert, 1), (self._list, 5), (self._write, 3),
        ]  # fmt: skip
        for _ in range(number):
            (maker,) = self._random.choices([each for each, _ in makers], [weight for _, weight in makers])
            yield maker()

    def _name(self) -> str:
        return self._random.choice(_NAMES)

    def _database(self) -> str:
        return self._random.choice(("a", "a", "b"))

    def _maybe(self, likelihood: float = 0.3) -> bool:
        return self._random.random() < likelihood

    def _create(self) -> Case:
        choose = self._random
        command: Document = {"create": self._name()}
        kind = choose.choice(("plain", "plain", "capped", "clustered", "series"))
        if kind == "series":
            series: Document = {"timeField": "t"}
            if self._maybe(0.5):
                series["metaField"] = "m"
            if self._maybe():
                series["granularity"] = choose.choice(("seconds", "minutes", "hours"))
            command["timeseries"] = series
            if self._maybe():
                command["expireAfterSeconds"] = choose.randrange(10**6, 10**8)
            return command, self._database()
        if kind == "capped":
            command |= {"capped": True, "size": choose.choice((1000, 4096, 5000, 10**6, 1 << 33))}
            if self._maybe(0.5):
                command["max"] = choose.choice((0, 1, 3, 10, 1000))
        elif kind == "clustered":
            command["clusteredIndex"] = {"key": {"_id": 1}, "unique": True}
            if self._maybe():
                command["clusteredIndex"]["name"] = "mine"
            if self._maybe():
                command["expireAfterSeconds"] = choose.randrange(10**6, 10**8)
        if self._maybe():
            command["validator"] = choose.choice(_VALIDATORS)
        if self._maybe(0.15):
            command["validationLevel"] = choose.choice(("off", "moderate", "strict", "none"))
        if self._maybe(0.15):
            command["validationAction"] = choose.choice(("error", "warn"))
        if kind != "clustered" and self._maybe(0.2):
            command["collation"] = choose.choice(_COLLATIONS)
        if self._maybe(0.2):
            command["changeStreamPreAndPostImages"] = {"enabled": self._maybe(0.7)}
        return command, self._database()

    def _document(self) -> Document:
        self._next_id += 1
        # Far from each other, so that each measurement has a bucket of its own, and never expired.
        found: Document = {"_id": self._next_id, "t": DatetimeMS(2 * 10**12 + self._next_id * 4 * 10**9)}
        for field in ("a", "b", "x"):
            if self._maybe(0.6):
                found[field] = self._random.choice(_VALUES)
        return found

    def _insert(self) -> Case:
        documents = [self._document() for _ in range(self._random.choice((1, 1, 2, 3)))]
        return {"insert": self._name(), "documents": documents, "ordered": self._maybe(0.5)}, self._database()

    def _write(self) -> Case:
        name = self._name()
        if self._maybe(0.5):
            return {
                "delete": name,
                "deletes": [{"q": {"_id": {"$gt": self._next_id - 3}}, "limit": 0}],
            }, self._database()
        change = {"q": {"_id": self._next_id}, "u": {"$set": {"b": self._random.choice((5, "y"))}}}
        return {"update": name, "updates": [change]}, self._database()

    def _key(self) -> Document:
        choose = self._random
        kind = choose.choice(("plain", "plain", "plain", "hashed", "text", "geo", "wildcard", "id"))
        if kind == "geo":
            return {"g": choose.choice(("2d", "2dsphere"))}
        if kind == "wildcard":
            return {choose.choice(("$**", "a.$**")): 1}
        if kind == "id":
            return {"_id": choose.choice((1, -1))}
        fields = choose.sample(_FIELDS, choose.choice((1, 1, 2)))
        key: Document = {field: choose.choice((1, -1)) for field in fields}
        if kind == "text":
            return {fields[0]: "text"}  # other fields of such an index cannot be arrays
        if kind != "plain":
            key[fields[0]] = kind
        return key

    def _index(self) -> Case:
        specs = [self._spec() for _ in range(self._random.choice((1, 1, 1, 2)))]
        return {"createIndexes": self._name(), "indexes": specs}, self._database()

    def _spec(self) -> Document:
        choose = self._random
        key = self._key()
        spec: Document = {"key": key, "name": choose.choice((*"ijkl", "_".join(map(str, key))))}
        if self._maybe(0.15) and "text" not in key.values():  # such an index has no keys here
            spec["unique"] = True
        if self._maybe(0.15):
            spec["sparse"] = choose.choice((True, False))
        if self._maybe(0.15):
            spec["hidden"] = True
        if self._maybe(0.1):
            spec["expireAfterSeconds"] = choose.choice((10**8, 1.5e8, Int64(10**8)))
        if self._maybe(0.1):
            spec["collation"] = choose.choice(_COLLATIONS)
        if self._maybe(0.05):
            spec["background"] = True
        return spec

    def _drop_index(self) -> Case:
        which = self._random.choice(
            ("*", "i", "j", ["i", "j"], ["*"], "_id_", {"a": 1}, {"b": -1}, {"a": "text"})
        )
        return {"dropIndexes": self._name(), "index": which}, self._database()

    def _coll_mod(self) -> Case:
        choose = self._random
        changes: tuple[Document, ...] = (
            {"validator": choose.choice(_VALIDATORS)},
            {"validationLevel": choose.choice(("off", "strict", "moderate"))},
            {"validationAction": choose.choice(("error", "warn"))},
            {"changeStreamPreAndPostImages": {"enabled": self._maybe(0.5)}},
            {"expireAfterSeconds": choose.choice((10**8, "off"))},
            {"timeseries": {"granularity": choose.choice(("seconds", "minutes", "hours"))}},
            {},
        )
        command: Document = {"collMod": self._name()}
        for change in choose.sample(changes, choose.choice((1, 1, 2))):
            command |= change
        if "timeseries" in command:
            # Beside an option that a time series does not have, the real server changes half of it.
            command = {name: command[name] for name in ("collMod", "timeseries")}
        return command, self._database()

    def _coll_mod_index(self) -> Case:
        choose = self._random
        ways: tuple[Document, ...] = (
            {"name": "i"},
            {"name": "j"},
            {"name": "_id_"},
            {"keyPattern": {"a": 1}},
        )
        changes: tuple[Document, ...] = (
            {"hidden": True},
            {"hidden": False},
            {"prepareUnique": True},
            {"unique": True},
        )
        index = choose.choice(ways) | choose.choice(changes)
        return {"collMod": self._name(), "index": index}, self._database()

    def _rename(self) -> Case:
        source, target = self._database(), self._database()
        command: Document = {
            "renameCollection": f"{{{source}}}.{self._name()}",
            "to": f"{{{target}}}.{self._name()}",
        }
        if self._maybe(0.6):
            command["dropTarget"] = True
        return command, "admin"

    def _drop(self) -> Case:
        return {"drop": self._name()}, self._database()

    def _drop_database(self) -> Case:
        return {"dropDatabase": 1}, self._database()

    def _view(self) -> Case:
        command: Document = {"create": self._name(), "viewOn": self._name()}
        if self._maybe(0.6):
            command["pipeline"] = [{"$match": {"a": self._random.randrange(3)}}]
        if self._maybe(0.1):
            # A time series that such a view is on is refused after half of it was created.
            command |= {"viewOn": "never_a_series", "collation": {"locale": "fr"}}
        return command, self._database()

    def _change_view(self) -> Case:
        stages = [{"$match": {"b": self._random.randrange(3)}}]
        return {"collMod": self._name(), "viewOn": self._name(), "pipeline": stages}, self._database()

    def _out(self) -> Case:
        pipeline = [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$out": self._name()}]
        return {"aggregate": self._name(), "pipeline": pipeline, "cursor": {}}, self._database()

    def _convert(self) -> Case:
        return {"convertToCapped": self._name(), "size": self._random.choice((1000, 5000))}, self._database()

    def _list(self) -> Case:
        if self._maybe(0.5):
            return {"listIndexes": self._name(), "cursor": {"batchSize": 1000}}, self._database()
        return {"listCollections": 1, "cursor": {"batchSize": 1000}}, self._database()
