"""Random updates of random documents of all BSON types, beside the real server."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from bson import DatetimeMS, Int64

from tests.oracle.comparison import Document
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Twins
from tests.oracle.writing import Writer
from tests.support.documents import DocumentMaker
from tests.support.modifiers import ModifierMaker

STEPS = 150
ONE_TIME = DatetimeMS(1_700_000_000_000)


class UpdateMaker:
    """Makes updates of every kind that fit a document."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.documents = DocumentMaker(rng)
        self._modifiers = ModifierMaker(rng, self.documents)

    def statement(self, document: Document) -> Document:
        """A statement without its query."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.45:
            return {"u": self._modifiers.make(document)}
        if kind < 0.6:
            return self._elements(document)
        if kind < 0.85:
            return {"u": [self._stage(document) for _ in range(rng.randrange(1, 4))]}
        changed = self.documents.changed(document)
        if rng.random() < 0.7:
            del changed["_id"]
        return {"u": changed}

    def _paths(self, value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
        for name, inner in value.items():
            if name and "." not in name and not name.startswith("$") and (prefix or name != "_id"):
                yield prefix + name, inner
                if isinstance(inner, dict):
                    yield from self._paths(inner, f"{prefix}{name}.")

    def _elements(self, document: Document) -> Document:
        rng = self._rng
        arrays = [(path, value) for path, value in self._paths(document) if isinstance(value, list) and value]
        if not arrays:
            return {"u": {"$set": {"list": [self.documents.value(1) for _ in range(rng.randrange(4))]}}}
        path, array = rng.choice(arrays)
        chosen = rng.choice(array)
        below = rng.choice(("", "", ".x", ".a", ".0"))
        operator = rng.choice(("$set", "$unset", "$inc", "$push", "$addToSet", "$min", "$mul"))
        argument = rng.choice((1, Int64(2), self.documents.value(1))) if operator != "$mul" else 2
        if rng.random() < 0.4:
            return {"u": {operator: {f"{path}.$[]{below}": argument}}}
        condition = rng.choice(
            ({"e": chosen}, {"e": {"$type": "number"}}, {"e": {"$exists": True}}, {"e.a": {"$exists": True}})
        )
        return {"u": {operator: {f"{path}.$[e]{below}": argument}}, "arrayFilters": [condition]}

    def _stage(self, document: Document) -> Document:
        rng = self._rng
        paths = [path for path, _ in self._paths(document)] or ["a"]
        picked = rng.sample(paths, min(len(paths), rng.randrange(1, 3)))
        tops = list(dict.fromkeys(path.split(".")[0] for path in picked))
        value = {"$literal": self.documents.value(1)}
        return rng.choice(
            (
                {"$set": {tops[0]: value}},
                {"$set": {rng.choice(paths): value}},
                {"$set": {f"n{rng.randrange(4)}.{rng.choice('xy')}": f"${picked[0]}"}},
                {"$set": {tops[0]: "$missing", "after": f"${tops[0]}"}},
                {"$unset": tops},
                {"$unset": picked[0]},
                {"$project": dict.fromkeys(tops, 1)},
                {"$project": dict.fromkeys(tops, 0)},
                {"$project": {tops[0]: 1, "made": value}},
                {"$replaceWith": {"$mergeObjects": ["$$ROOT", {tops[0]: value}]}},
                {"$replaceWith": {"_id": "$_id", tops[0]: f"${tops[0]}", "made": value}},
            )
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_random_updates(twins: Twins, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    maker = UpdateMaker(rng)
    name = f"random{seed}"
    writer = Writer(twins, name)
    for number in range(STEPS):
        query = {"_id": number}
        document = maker.documents.stored(number)
        writer.run({"insert": name, "documents": [document]})
        for _ in range(2):
            statement = {"q": query, **maker.statement(document)}
            if rng.random() < 0.1:
                statement |= {"q": {"_id": number + 100_000}, "upsert": True}
            writer.run({"update": name, "updates": [statement]}, f"{document} {statement}")
            found = writer.run({"find": name, "filter": query}, f"after {document} {statement}")
            document = found["cursor"]["firstBatch"][0]
            if "$currentDate" in statement["u"]:
                document |= one_time(document)
                writer.run({"update": name, "updates": [{"q": query, "u": {"$set": one_time(document)}}]})
    writer.finish()


def one_time(document: Document) -> Document:
    """The fields that the servers' clocks have set, with a time that both have."""
    return {field: ONE_TIME for field in document if field.startswith("at")}
