# ruff: noqa: E501 - tables of cases
"""Random reads: filters, projections, sorts and pipelines that fit random documents of every BSON type."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from bson import Timestamp

from tailrace.bson.documents import encode
from tests.oracle.replay.random_cases import CaseMaker
from tests.support.documents import PLAIN_NAMES, DocumentMaker

Document = dict[str, Any]
_NUMBERS: Final = (
    "$abs",
    "$ceil",
    "$floor",
    "$round",
    "$trunc",
    "$sqrt",
    "$toInt",
    "$toDouble",
    "$toLong",
    "$toString",
)
_ANY: Final = ("$type", "$isArray", "$isNumber", "$toBool", "$toUpper", "$toLower", "$size", "$first", "$last",
               "$reverseArray", "$objectToArray", "$strLenCP", "$strLenBytes", "$year", "$dayOfWeek", "$bsonSize", "$toDate",
               "$toDecimal", "$anyElementTrue", "$allElementsTrue", "$sum", "$max", "$min")  # fmt: skip
_PAIRS: Final = ("$add", "$subtract", "$multiply", "$divide", "$mod", "$cmp", "$eq", "$gt", "$in", "$concat", "$concatArrays",
                 "$setUnion", "$setIntersection", "$setDifference", "$setIsSubset", "$arrayElemAt", "$slice", "$indexOfArray",
                 "$split", "$ifNull", "$mergeObjects", "$max", "$min", "$sum", "$strcasecmp")  # fmt: skip
_ACCUMULATORS: Final = ("$sum", "$min", "$max", "$first", "$last", "$push", "$addToSet")


def documents(rng: random.Random, count: int) -> list[Document]:
    """Documents with every type of value, under few names, so that paths find something."""
    maker = DocumentMaker(rng)
    return [maker.stored(number) for number in range(count)]


class ReadMaker(CaseMaker):
    """Makes reads of a collection, given its documents."""

    _paths = (
        "_id", *PLAIN_NAMES, *(f"{name}.{other}" for name in PLAIN_NAMES[:4] for other in PLAIN_NAMES[:3]),
        *(f"{name}.0" for name in PLAIN_NAMES[:3]), "missing", "",
    )  # fmt: skip

    def __init__(self, rng: random.Random, found: Sequence[Document]) -> None:
        super().__init__(rng, Timestamp(1, 1), ["test"], [encode(document) for document in found])
        self._pipeline_stages: tuple[Callable[[], Document], ...] = (
            *(self._stages[3:]), self._match, self._group, self._sort, self._unwind, self._limit, self._count_stage,
            self._lookup, self._facet, self._bucket, self._window, self._sort_by_count,
        )  # fmt: skip

    def command(self, collection: str) -> tuple[Document, bool]:
        """A read, and whether its results have no order."""
        rng = self._rng
        roll = rng.random()
        if roll < 0.4:
            return self._find(collection), False
        if roll < 0.5:
            return {"count": collection, "query": self._condition(2)}, False
        if roll < 0.6:
            key = rng.choice(self._paths[:-1])
            return {"distinct": collection, "key": key, "query": self._condition(1)}, False
        stages: list[Document] = []
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            stage = rng.choice(self._pipeline_stages)()
            # Without an order, these would choose any documents.
            if not (stages and next(iter(stage)) in ("$limit", "$skip", "$bucketAuto", "$facet")):
                stages.append(stage)
        command = {"aggregate": collection, "pipeline": stages, "cursor": {"batchSize": 1000}}
        return command, "$group" in str(stages) or "$sortByCount" in str(stages)

    def _find(self, collection: str) -> Document:
        rng = self._rng
        command: Document = {"find": collection, "batchSize": 1000}
        if rng.random() < 0.8:
            command["filter"] = self._condition(2)
        if rng.random() < 0.4:
            command["sort"] = {rng.choice(self._paths[:-1]): rng.choice((1, -1)), "_id": 1}
        if rng.random() < 0.4:
            command["projection"] = self._project()["$project"]
        if rng.random() < 0.2:
            command |= {"skip": rng.randrange(5), "limit": rng.randrange(1, 9)}
        if rng.random() < 0.1:
            command["collation"] = {"locale": "en", "strength": rng.choice((1, 2, 3))}
        return command

    # -- stages -----------------------------------------------------------------------------------------

    def _match(self) -> Document:
        return {"$match": self._condition(2)}

    def _group(self) -> Document:
        rng = self._rng
        key = rng.choice(
            (
                None,
                f"${rng.choice(self._paths[:-1])}",
                {"x": f"${rng.choice(self._paths[:-1])}"},
                self._expression(1),
            )
        )
        name = rng.choice(_ACCUMULATORS)
        return {"$group": {"_id": key, "r": {name: self._expression(1)}}}

    def _sort(self) -> Document:
        rng = self._rng
        return {"$sort": {rng.choice(self._paths[:-1]): rng.choice((1, -1)), "_id": 1}}

    def _unwind(self) -> Document:
        rng = self._rng
        spec: Document = {"path": f"${rng.choice(self._top)}"}
        if rng.random() < 0.4:
            spec["preserveNullAndEmptyArrays"] = True
        if rng.random() < 0.3:
            spec["includeArrayIndex"] = "index"
        return {"$unwind": spec}

    def _limit(self) -> Document:
        return {self._rng.choice(("$limit", "$skip")): self._rng.randrange(1, 20)}

    def _count_stage(self) -> Document:
        return {"$count": "n"}

    def _sort_by_count(self) -> Document:
        return {"$sortByCount": {"$type": f"${self._rng.choice(self._paths[:-1])}"}}

    def _lookup(self) -> Document:
        rng = self._rng
        local, foreign = rng.choice(self._paths[:-1]), rng.choice(self._paths[:-1])
        return {"$lookup": {"from": "other", "localField": local, "foreignField": foreign, "as": "joined"}}

    def _facet(self) -> Document:
        return {"$facet": {"one": [self._match()], "two": [self._project()]}}

    def _bucket(self) -> Document:
        rng = self._rng
        return {
            "$bucketAuto": {"groupBy": f"${rng.choice(self._paths[:-1])}", "buckets": rng.randrange(1, 6)}
        }

    def _window(self) -> Document:
        rng = self._rng
        output = {rng.choice(("$sum", "$max", "$push", "$first")): f"${rng.choice(self._paths[:-1])}"}
        window = {"documents": rng.choice(([-1, 1], ["unbounded", "current"], [0, 2]))}
        return {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"w": {**output, "window": window}}}}

    # -- expressions ------------------------------------------------------------------------------------

    def _expression(self, depth: int) -> Any:
        rng = self._rng
        if not depth or rng.random() < 0.4:
            return super()._expression(depth)
        inner = self._expression
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: {rng.choice(_ANY): inner(depth - 1)},
            lambda: {rng.choice(_NUMBERS): inner(depth - 1)},
            lambda: {rng.choice(_PAIRS): [inner(depth - 1), inner(depth - 1)]},
            lambda: {"$dateToString": {"date": inner(depth - 1), "format": "%Y-%m-%dT%H:%M:%S.%L", "onNull": "none"}},
            lambda: {"$regexMatch": {"input": inner(depth - 1), "regex": "^[a-t]"}},
            lambda: {"$convert": {"input": inner(depth - 1), "to": rng.choice(("long", "date", "decimal", "objectId")), "onError": None}},
            lambda: {"$substrCP": [{"$toString": {"$ifNull": [inner(0), "none"]}}, 0, 2]},
            lambda: {"$range": [0, rng.randrange(4)]},
            lambda: {"$arrayToObject": [[["k", inner(depth - 1)]]]},
        )  # fmt: skip
        return rng.choice(kinds)()
