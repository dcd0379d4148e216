"""Commands on collections, views, indexes and databases of a real server."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import MongoClient
from pymongo.database import Database

from tests.oracle.replay.stream_case import Document
from tests.support.client_workload import COLLECTIONS, RENAMED, raw_document
from tests.support.documents import DocumentMaker

Operation = tuple[int, Callable[[], object]]
SIDE: Final = ("capped", "clustered", "series", "out", "folded", "collated", "scripts")
"""Collections of these commands; those of `COLLECTIONS` are changed, too."""


class RealCommands:
    def __init__(
        self,
        client: "MongoClient[Any]",
        rng: random.Random,
        documents: DocumentMaker,
        databases: Sequence[str],
    ) -> None:
        self._client = client
        self._rng = rng
        self._documents = documents
        self._databases = databases

    def operations(self) -> list[Operation]:
        """Every command with its weight."""
        return [
            (2, self._capped), (2, self._convert_to_capped), (2, self._clustered), (3, self._time_series),
            (2, self._write_series), (2, self._out), (3, self._merge), (2, self._rename_to_other_database),
            (2, self._collated), (3, self._validator), (3, self._index_options), (2, self._failing_index),
            (2, self._drop_all_indexes), (2, self._apply_operations), (2, self._system_scripts),
            (2, self._views), (2, self._note), (2, self._options), (1, self._text_index),
            (1, self._side_drop),
        ]  # fmt: skip

    def _database(self) -> "Database[Any]":
        return self._client[self._rng.choice(self._databases)]

    def _name(self) -> str:
        return self._rng.choice(COLLECTIONS)

    def _document(self) -> Any:
        return raw_document(self._documents.stored(self._documents.identifier()))

    # -- kinds of collections -------------------------------------------------------------------------

    def _capped(self) -> None:
        """A capped collection from which documents are removed when it is full."""
        rng, database = self._rng, self._database()
        if "capped" not in database.list_collection_names():
            images = {"changeStreamPreAndPostImages": {"enabled": True}} if rng.random() < 0.3 else {}
            database.command(
                {"create": "capped", "capped": True, "size": 5000, "max": rng.randrange(2, 6), **images}
            )
        for number in range(5):
            database.capped.insert_one({"number": number})
        database.capped.update_one({}, {"$inc": {"number": 1}})
        if rng.random() < 0.3:
            database.command({"collMod": "capped", "cappedMax": 3})

    def _convert_to_capped(self) -> None:
        database = self._database()
        name = self._rng.choice((*COLLECTIONS, "out"))
        database[name].insert_one(self._document())
        database.command({"convertToCapped": name, "size": 100_000})

    def _clustered(self) -> None:
        rng, database = self._rng, self._database()
        if "clustered" not in database.list_collection_names():
            index = {"key": {"_id": 1}, "unique": True}
            extra: dict[str, Any] = {"expireAfterSeconds": 10**6} if rng.random() < 0.5 else {}
            database.command({"create": "clustered", "clusteredIndex": index, **extra})
        identifier = rng.choice((rng.randrange(5), "text", 2.5, None))
        database.clustered.replace_one({"_id": identifier}, {"x": rng.random()}, upsert=True)
        database.clustered.update_one({"_id": identifier}, {"$set": {"y": [1, {"z": identifier}]}})
        if rng.random() < 0.3:
            database.clustered.delete_one({"_id": identifier})
        if rng.random() < 0.3:
            database.command({"collMod": "clustered", "expireAfterSeconds": rng.choice(("off", 500))})

    def _time_series(self) -> None:
        rng, database = self._rng, self._database()
        if rng.random() < 0.5:
            database.drop_collection("series")
        options: dict[str, Any] = {"timeField": "at", "metaField": "from"}
        if rng.random() < 0.5:
            options["granularity"] = "hours"
        extra: dict[str, Any] = {"expireAfterSeconds": 10**9} if rng.random() < 0.5 else {}
        database.command({"create": "series", "timeseries": options, **extra})

    def _write_series(self) -> None:
        rng, database = self._rng, self._database()
        if "series" not in database.list_collection_names():
            database.command({"create": "series", "timeseries": {"timeField": "at", "metaField": "from"}})
        start = datetime(2024, 1, 1)
        measured = [
            {
                "at": start + timedelta(minutes=rng.randrange(500)),
                "from": rng.randrange(2),
                "value": rng.random(),
            }
            for _ in range(rng.randrange(1, 5))
        ]
        database.series.insert_many(measured)
        if rng.random() < 0.3:
            database.series.delete_many({"from": 1})
        if rng.random() < 0.3:
            database.series.create_index([("from", 1), ("at", -1)])
        if rng.random() < 0.3:
            database.command({"collMod": "series", "timeseries": {"granularity": "hours"}})

    def _collated(self) -> None:
        database = self._database()
        if "collated" not in database.list_collection_names():
            database.command({"create": "collated", "collation": {"locale": "fr", "strength": 1}})
        identifier = self._rng.choice(("a", "B", "é", "z"))
        database.collated.replace_one({"_id": identifier}, {"x": self._rng.random()}, upsert=True)
        database.collated.update_many({}, {"$inc": {"n": 1}})
        if self._rng.random() < 0.3:
            database.collated.create_index("x", collation={"locale": "de"})

    def _options(self) -> None:
        """Less usual options of `create`."""
        options: Document = self._rng.choice(
            ({"storageEngine": {"wiredTiger": {}}}, {"indexOptionDefaults": {}}, {"comment": "c"})
        )
        self._database().command({"create": self._name(), **options})

    # -- results of aggregations ----------------------------------------------------------------------

    def _out(self) -> None:
        database = self._database()
        to: Any = self._rng.choice(("out", {"db": self._rng.choice(self._databases), "coll": "out"}))
        list(database[self._name()].aggregate([{"$limit": 5}, {"$out": to}]))

    def _merge(self) -> None:
        rng, database = self._rng, self._database()
        matched: Any = rng.choice(
            (
                "merge",
                "replace",
                "keepExisting",
                [{"$set": {"times": {"$add": [{"$ifNull": ["$times", 0]}, 1]}}}],
            )
        )
        stages: list[Any] = [{"$limit": 6}, {"$set": {"merged": rng.randrange(3)}}]
        stages.append({"$merge": {"into": "folded", "whenMatched": matched}})
        list(database[self._name()].aggregate(stages))

    # -- names ----------------------------------------------------------------------------------------

    def _rename_to_other_database(self) -> None:
        first, second = self._databases
        name = self._name()
        self._client[first][name].insert_one(self._document())
        command = {"renameCollection": f"{first}.{name}", "to": f"{second}.{self._rng.choice(RENAMED)}"}
        self._client.admin.command({**command, "dropTarget": self._rng.random() < 0.7})

    def _side_drop(self) -> None:
        self._database().drop_collection(self._rng.choice(SIDE))

    def _views(self) -> None:
        database = self._database()
        if "seen" not in database.list_collection_names():
            database.command({"create": "seen", "viewOn": self._name(), "pipeline": [{"$match": {"a": 1}}]})
        database.command(
            {"collMod": "seen", "viewOn": self._name(), "pipeline": [{"$limit": self._rng.randrange(1, 9)}]}
        )
        if self._rng.random() < 0.4:
            database.drop_collection("seen")

    # -- options and indexes --------------------------------------------------------------------------

    def _validator(self) -> None:
        change: Document = self._rng.choice((
            {"validator": {"never": {"$exists": False}}, "validationLevel": "moderate"},
            {"validationLevel": "off"}, {"validationAction": "warn"}, {"validator": {}},
        ))  # fmt: skip
        self._database().command({"collMod": self._name(), **change})

    def _index_options(self) -> None:
        rng, database = self._rng, self._database()
        name = self._name()
        keys = rng.choice(
            ([("at1", 1)], [("a", 1), ("b", -1)], [("tags", "hashed")], [("$**", 1)], [("nested.a", 1)])
        )
        options: Document = rng.choice((
            {}, {"sparse": True}, {"hidden": True}, {"partialFilterExpression": {"qty": {"$gt": 3}}},
            {"collation": {"locale": "en", "strength": 2}},
        ))  # fmt: skip
        if keys == [("$**", 1)]:
            options = {"wildcardProjection": {"a": 1}}
        made = database[name].create_index(keys, **options)
        change = rng.choice(({"hidden": True}, {"hidden": False}, {"expireAfterSeconds": 10**7}, None))
        if (
            change is not None
            and "expireAfterSeconds" in change
            and keys not in ([("at1", 1)], [("nested.a", 1)])
        ):
            change = None  # a 6.0.27 aborts when other indexes get a time to live
        if change is not None:
            database.command({"collMod": name, "index": {"name": made, **change}})
        elif rng.random() < 0.5:
            database[name].drop_index(made)
        else:
            several = [
                {"key": {"m": 1}, "name": "m"},
                {"key": {"n": -1, "m": 1}, "name": "n", "expireAfterSeconds": 9},
            ]
            database.command({"createIndexes": name, "indexes": several[: rng.randrange(1, 3)]})

    def _failing_index(self) -> None:
        database = self._database()
        name = self._name()
        database[name].insert_many([{"twice": 1}, {"twice": 1}])
        database[name].create_index("twice", unique=True)

    def _text_index(self) -> None:
        self._database()[self._name()].create_index([("a", "text"), ("b", "2dsphere")][:1])

    def _drop_all_indexes(self) -> None:
        self._database().command({"dropIndexes": self._name(), "index": "*"})

    # -- others ---------------------------------------------------------------------------------------

    def _apply_operations(self) -> None:
        """Operations that a user applies: only those with a session are shown by a 6.0."""
        database = self._database()
        name = f"{database.name}.{self._name()}"
        key = {"_id": f"applied{self._rng.randrange(6)}"}
        operations: list[Any] = [
            {"op": "i", "ns": name, "o": {**key, "by": "applyOps"}},
            {"op": "u", "ns": name, "o2": key, "o": {"$v": 2, "diff": {"u": {"by": self._rng.randrange(9)}}}},
            {"op": "d", "ns": name, "o": key},
            {"op": "c", "ns": f"{database.name}.$cmd", "o": {"create": f"applied{self._rng.randrange(9)}"}},
        ]
        chosen = operations[: self._rng.randrange(1, 4)] if self._rng.random() < 0.7 else operations[3:]
        self._client.admin.command({"applyOps": chosen})

    def _system_scripts(self) -> None:
        scripts = self._database()["system.js"]
        scripts.replace_one({"_id": "f"}, {"value": self._rng.random()}, upsert=True)
        if self._rng.random() < 0.4:
            scripts.delete_one({"_id": "f"})

    def _note(self) -> None:
        self._client.admin.command({"appendOplogNote": 1, "data": {"note": self._rng.randrange(100)}})
