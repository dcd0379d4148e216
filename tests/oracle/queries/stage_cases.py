# ruff: noqa: E501 - tables of cases
"""Pipelines to compare: every stage with its options, its errors, and values of every type."""

from collections.abc import Iterator
from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, Regex

from tailrace.bson.values import Undefined
from tests.oracle.queries.values import ONE_OF_EACH, each

Pipeline = list[Any]
_DAY: Final = 86_400_000
SALES: Final[tuple[dict[str, Any], ...]] = (
    {"_id": 7, "k": "a", "n": 3, "d": DatetimeMS(5 * _DAY), "tags": ["x", "y"], "sub": {"v": 1, "w": [1, 2]}},
    {"_id": 2, "k": "b", "n": 1, "d": DatetimeMS(1 * _DAY), "tags": [], "sub": {"v": None}},
    {"_id": 9, "k": "a", "n": 2.5, "d": DatetimeMS(9 * _DAY), "tags": "x", "sub": {}},
    {"_id": 4, "k": None, "n": Int64(7), "d": DatetimeMS(2 * _DAY), "tags": None},
    {"_id": 5, "n": Decimal128("1.5"), "d": DatetimeMS(3 * _DAY), "sub": {"v": [1, 2]}},
    {"_id": 1, "k": "c", "n": None, "tags": ["y", ["z"]], "sub": [{"v": 5}, {"v": 6}]},
    {"_id": 3, "k": ["a", "b"], "d": None, "tags": [None, 1], "sub": 5},
    {"_id": 8, "k": {"x": 1}, "n": "text", "tags": [{"t": 1}, {"t": 2}], "parent": 7},
    {"_id": 6, "k": "b", "n": float("nan"), "d": DatetimeMS(4 * _DAY), "parent": 8},
)
NUMBERED: Final[tuple[dict[str, Any], ...]] = tuple(
    {"_id": number, "g": number % 3, "n": value, "d": DatetimeMS(number * _DAY), "q": [number, number % 4],
     **({} if number % 4 == 2 else {"m": None if number % 5 == 0 else number * number})}
    for number, value in enumerate((5, 3, 3, 8.5, Int64(1), 9, 2, Decimal128("4.5"), 7, 1, 6, 0))
)  # fmt: skip
"""Numbers in every document, with gaps in `m`."""
PEOPLE: Final[tuple[dict[str, Any], ...]] = (
    {"_id": 1, "name": "a", "ref": 7, "tags": ["x"], "d": {"b": 1}},
    {"_id": 2, "name": "b", "ref": None, "tags": ["y", "x"], "d": [1, 2]},
    {"_id": 3, "name": None, "tags": [], "d": []},
    {"_id": 4, "ref": [7, 2], "d": [[1]]},
    {"_id": 5, "name": "a", "ref": {"x": 1}, "d": [{"b": None}, {"b": 2}]},
    {"_id": 6, "name": Undefined(), "ref": "b", "d": [{}]},
)

ACCUMULATORS: Final = (
    "$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$stdDevPop", "$stdDevSamp", "$mergeObjects",
    "$count",
)  # fmt: skip
_N: Final = ("$firstN", "$lastN", "$maxN", "$minN")
_OVER: Final = ("$n", "$k", "$m", "$missing", "$tags", "$sub", "$sub.v", "$d", 1, None, {"x": "$n"}, ["$n"])
_WINDOWS: Final[tuple[Any, ...]] = (
    None, {}, {"documents": ["unbounded", "current"]}, {"documents": [-1, 1]}, {"documents": [1, 2]},
    {"documents": ["current", "unbounded"]}, {"documents": [0, 0]}, {"documents": [-2, -1]},
    {"range": [-2, 2]}, {"range": ["unbounded", "current"]}, {"range": [-1, 0], "unit": "day"},
    {"documents": [2, 1]}, {"documents": ["x", 1]}, {"documents": [1]}, {"documents": [1.5, 2]}, {"nope": [1, 2]},
    {"documents": [0, 1], "range": [0, 1]}, {"documents": [0, 1], "unit": "day"}, {"range": [0, 1], "unit": "x"},
)  # fmt: skip


def grouping() -> Iterator[Pipeline]:
    for key in each(None, "$k", "$missing", "$sub", "$sub.v", {"x": "$k"}, {"x": "$k", "y": "$n"}, {"x": {"y": "$k"}}, "$n", ["$k"],
                {}, {"$type": "$k"}, "$$ROOT.k", {"x": "$missing"}, {"x": "$missing", "y": 1}, 1, "$tags", "$sub.w"):  # fmt: skip
        for accumulator in each(*ACCUMULATORS, "$nope"):
            over: tuple[Any, ...] = (
                ({},) if accumulator == "$count" else _OVER if key in (None, "$k") else ("$n", "$k")
            )
            for argument in over:
                yield [{"$group": {"_id": key, "r": {accumulator: argument}}}]
        for name in _N:
            yield [{"$group": {"_id": key, "r": {name: {"input": "$n", "n": 2}}}}]
        for name in each("$top", "$bottom"):
            yield [{"$group": {"_id": key, "r": {name: {"output": "$_id", "sortBy": {"n": 1, "_id": 1}}}}}]
            yield [
                {
                    "$group": {
                        "_id": key,
                        "r": {f"{name}N": {"output": ["$_id", "$n"], "sortBy": {"n": -1, "_id": 1}, "n": 2}},
                    }
                }
            ]
    for value in ONE_OF_EACH:
        for name in each(*ACCUMULATORS, *_N, "$top", "$topN", "$bottomN"):
            yield [{"$group": {"_id": None, "r": {name: {"$literal": value}}}}]
            yield [{"$group": {"_id": None, "r": {name: value}}}] if not isinstance(value, str) else []
        for name in _N:
            yield [{"$group": {"_id": None, "r": {name: {"input": "$n", "n": {"$literal": value}}}}}]
        yield [{"$group": {"_id": {"$literal": value}}}]
        yield [{"$group": value}]
    for spec in each({}, {"_id": 1, "r": 1}, {"_id": 1, "r": {}}, {"_id": 1, "r": {"$sum": 1, "$avg": 1}}, {"_id": 1, "a.b": {"$sum": 1}},
                 {"_id": 1, "$a": {"$sum": 1}}, {"r": {"$sum": 1}}, {"_id": "$a.", "r": {"$sum": 1}}, {"_id": 1, "_id2": 1},
                 {"_id": 1, "r": {"$sum": [1, 2]}}, {"_id": 1, "r": {"$count": 1}}, {"_id": 1, "r": {"$push": ["$n", "$k"]}},
                 {"_id": 1, "r": {"$topN": {"n": 1, "sortBy": {"a": 1}}}}, {"_id": 1, "r": {"$top": {"output": 1}}},
                 {"_id": 1, "r": {"$topN": {"n": 0, "sortBy": {"a": 1}, "output": 1}}}, {"_id": {"$x": 1}},
                 {"_id": 1, "r": {"$firstN": {"n": 1}}}, {"_id": 1, "r": {"$firstN": {"input": 1}}},
                 {"_id": 1, "r": {"$firstN": {"input": 1, "n": 1, "x": 1}}}, {"_id": 1, "r": {"$firstN": {"input": 1, "n": "$n"}}},
                 {"_id": 1, "r": {"$top": {"output": 1, "sortBy": {}}}}, {"_id": 1, "r": {"$top": {"output": 1, "sortBy": 1}}},
                 {"_id": 1, "r": {"$top": {"output": 1, "sortBy": {"n": 1}, "n": 1}}}, {"_id": "$k", "r": {"$maxN": {"input": "$n", "n": {"$add": [1, 1]}}}}):  # fmt: skip
        yield [{"$group": spec}]


def windows() -> Iterator[Pipeline]:
    functions: tuple[Any, ...] = (
        *({name: {} if name == "$count" else "$n"} for name in ACCUMULATORS if name not in ("$addToSet", "$stdDevPop", "$stdDevSamp")), {"$rank": {}}, {"$denseRank": {}},
        {"$documentNumber": {}}, {"$shift": {"output": "$n", "by": 1}}, {"$shift": {"output": "$n", "by": -1, "default": "x"}},
        {"$expMovingAvg": {"input": "$_id", "N": 3}}, {"$expMovingAvg": {"input": "$m", "alpha": 0.5}},
        {"$derivative": {"input": "$n"}}, {"$integral": {"input": "$n"}}, {"$derivative": {"input": "$n", "unit": "day"}},
        {"$integral": {"input": "$_id", "unit": "hour"}}, {"$covariancePop": ["$m", "$_id"]}, {"$covarianceSamp": ["$m", "$_id"]},
        {"$linearFill": "$m"}, {"$locf": "$m"}, {"$firstN": {"input": "$n", "n": 2}}, {"$maxN": {"input": "$n", "n": 2}},
        {"$top": {"output": "$_id", "sortBy": {"n": 1}}}, {"$bottomN": {"output": "$_id", "sortBy": {"n": 1}, "n": 2}},
        {"$lastN": {"input": "$n", "n": 2}}, {"$minN": {"input": "$n", "n": 2}}, {"$nope": 1}, {"$rank": 1}, {"$sum": "$missing"},
        {"$shift": {"output": "$n"}}, {"$expMovingAvg": {"input": "$n", "N": 0}}, {"$expMovingAvg": {"input": "$n", "alpha": 2}},
        {"$covariancePop": "$n"}, {"$max": "$d"}, {"$min": "$q"}, {"$push": "$m"}, {"$avg": "$m"},
    )  # fmt: skip
    for sort in each({"_id": 1}, {"d": 1}, {"n": 1, "_id": -1}, {"g": 1}, None):
        for function in functions:
            for window in _WINDOWS:
                output = function if window is None else {**function, "window": window}
                spec: dict[str, Any] = {"output": {"r": output}, "partitionBy": "$g"}
                if sort is not None:
                    spec["sortBy"] = sort
                yield [{"$setWindowFields": spec}, {"$project": {"r": 1}}]
    for spec in each({}, 5, {"output": {}}, {"output": 1}, {"output": {"a": 1}}, {"output": {"a": {}}}, {"output": {"a.b": {"$sum": 1}}},
                 {"output": {"$a": {"$sum": 1}}}, {"output": {"a": {"$sum": 1}}, "x": 1}, {"sortBy": 1, "output": {}},
                 {"partitionBy": "$q", "output": {"r": {"$sum": 1}}}, {"partitionBy": {"x": "$g"}, "output": {"r": {"$sum": "$n"}}},
                 {"sortBy": {"g": -1, "_id": 1}, "output": {"r": {"$documentNumber": {}}, "s.t": {"$sum": 1}}},
                 {"output": {"g": {"$sum": "$n"}, "n": {"$max": "$n"}}}):  # fmt: skip
        yield [{"$setWindowFields": spec}]


def shaping() -> Iterator[Pipeline]:
    """Stages that treat one document at a time."""
    for name in each("$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact", "$match", "$unwind", "$limit",
                 "$skip", "$sort", "$count", "$sortByCount", "$sample", "$facet", "$bucket", "$bucketAuto", "$densify",
                 "$fill", "$lookup", "$graphLookup", "$unionWith", "$documents", "$merge", "$out", "$nope", "$setWindowFields",
                 "$collStats", "$indexStats", "$currentOp", "$planCacheStats", "$listSessions", "$queue"):  # fmt: skip
        for value in ONE_OF_EACH:
            if name not in ("$merge", "$out") or not isinstance(value, str) or not value:
                yield [{name: value}]
        yield [{name: {}, "x": 1}]
        yield [{"$limit": 1}, {name: {}}]
        yield [{"$facet": {"f": [{name: {}}]}}]
        yield [{"$unionWith": {"coll": "people", "pipeline": [{name: {}}]}}]
    for value in ONE_OF_EACH:
        for name in each("$project", "$addFields"):
            for path in each("k", "sub.v", "new", "tags.t", "_id"):
                yield [{name: {path: value}}]
                yield [{name: {path: {"$literal": value}}}]
        yield [{"$replaceWith": {"$literal": value}}]
        yield [{"$replaceRoot": {"newRoot": {"$literal": value}}}]
        yield [{"$redact": {"$literal": value}}]
        yield [{"$sort": {"k": value}}]
        yield [{"$unwind": {"path": "$tags", "includeArrayIndex": value}}]
        yield [{"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": value}}]
        yield [{"$sortByCount": {"$literal": value}}]
        yield [{"$unset": [value]}]
        yield [value]
    for spec in each({"k": 1, "n": 0}, {"_id": 0, "k": 1}, {"_id": 0}, {"k": 0, "_id": 1}, {"k": 1, "_id": 0, "sub.v": 1}, {"sub": {"v": 1}},
                 {"sub": {"v": 0}}, {"sub.v": 0, "sub.w": 0}, {"sub": 1, "sub.v": 1}, {"sub.v": 1, "sub": 1}, {"a.b.c": "$k"},
                 {"tags.z": "$k"}, {"tags.t": 1}, {"sub.v.x": 1}, {"sub.v.x": "$k"}, {"": 1}, {"a.": 1}, {"$a": 1}, {"a.$b": 1},
                 {"k": {"$nope": 1}}, {"k": "$$REMOVE"}, {"k": "$missing"}, {"_id": "$k"}, {"_id": {"x": "$k"}}, {"_id.x": "$k"},
                 {"k": True, "n": 1.5}, {"k": -1}, {"k": Decimal128("0")}, {"k": {"$elemMatch": {}}}, {"tags": {"$slice": ["$tags", 1]}},
                 {"tags": {"$slice": 1}}, {"k": ""}, {"k": "x"}, {"k": [1, "$n"]}, {"k": {"$meta": "sortKey"}},
                 {"k": {"a": {"b": "$n"}}}, {"k": {}}, {"sub": {"v": {"$add": [1, 1]}, "w": 1}}, {"sub": {"v": 1, "w": 0}},
                 {"n": 1, "k": 1, "sub": 1, "x": "$n"}, {"a.b": 1, "a": 0}, {"k.$": 1}, {"_id": 0, "k": 0}, {"_id": 1},
                 {"_id": 1, "k": 0, "n": 0}, {"_id": 0, "x": "$k"}, {"_id": 0.0, "k": True}):  # fmt: skip
        for name in each("$project", "$addFields"):
            yield [{name: spec}]
    yield from ([{"$unset": "k"}], [{"$unset": ["k", "sub.v"]}], [{"$unset": ["k", "k"]}], [{"$unset": ["sub", "sub.v"]}], [{"$unset": ""}],
                   [{"$unset": []}], [{"$unset": "_id"}], [{"$unset": "$k"}], [{"$replaceWith": "$sub"}], [{"$replaceWith": {"$mergeObjects": ["$sub", {"k": "$k"}]}}],
                   [{"$match": {"sub": {"$type": "object"}}}, {"$replaceRoot": {"newRoot": "$sub"}}],
                   [{"$redact": {"$cond": [{"$eq": ["$k", "a"]}, "$$KEEP", "$$PRUNE"]}}],
                   [{"$redact": {"$cond": [{"$eq": ["$v", 5]}, "$$PRUNE", "$$DESCEND"]}}], [{"$redact": "$$DESCEND"}], [{"$redact": "$$PRUNE"}],
                   [{"$unwind": "$tags"}], [{"$unwind": "$sub"}], [{"$unwind": "$sub.w"}], [{"$unwind": "$missing"}],
                   [{"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": True}}], [{"$unwind": {"path": "$tags", "includeArrayIndex": "i"}}],
                   [{"$unwind": {"path": "$tags", "includeArrayIndex": "sub.i", "preserveNullAndEmptyArrays": True}}],
                   [{"$unwind": {"path": "$tags", "includeArrayIndex": "tags.i"}}], [{"$unwind": {"path": "$tags", "includeArrayIndex": "$i"}}],
                   [{"$unwind": "tags"}], [{"$unwind": "$"}], [{"$unwind": {"path": "$tags", "x": 1}}], [{"$unwind": {}}], [{"$unwind": "$$ROOT"}],
                   [{"$unwind": "$tags"}, {"$unwind": "$tags"}], [{"$unwind": "$tags"}, {"$sort": {"tags": 1, "_id": 1}}],
                   [{"$sort": {"_id": 1}}, {"$skip": 2}, {"$limit": 3}], [{"$skip": 100}], [{"$limit": 2.0}], [{"$limit": 2.5}], [{"$skip": -1}],
                   [{"$limit": 0}], [{"$skip": Int64(2**62)}], [{"$sort": {"_id": -1}}, {"$limit": 2}, {"$skip": 1}], [{"$count": "n"}],
                   [{"$match": {"_id": 99}}, {"$count": "n"}], [{"$count": "a.b"}], [{"$count": "$n"}], [{"$count": "_id"}], [{"$count": "n\0"}],
                   [{"$sortByCount": {"$type": "$k"}}], [{"$sortByCount": "k"}], [{"$sample": {"size": 100}}, {"$sort": {"_id": 1}}],
                   [{"$sample": {}}], [{"$sample": {"size": -1}}], [{"$sample": {"size": 0}}], [{"$sample": {"size": 1, "x": 1}}],
                   [{"$facet": {"a": [{"$count": "n"}], "b": [{"$match": {"k": "a"}}]}}], [{"$facet": {"a": []}}], [{"$facet": {"a.b": []}}],
                   [{"$facet": {"$a": []}}], [{"$facet": {"a": [{"$facet": {"b": []}}]}}], [{"$facet": {"a": [{"$out": "x"}]}}],
                   [{"$facet": {"a": {}}}], [{"$facet": {"a": [1]}}], [{"$match": {"_id": 99}}, {"$facet": {"a": [{"$match": {}}]}}],
                   [{"$project": {"k": 1}}, {"$match": {"k": None}}], [{"$set": {"x": "$n"}}, {"$match": {"x": {"$gt": 2}}}],
                   [{"$set": {"s": {"$add": ["$_id", 1]}}}, {"$sort": {"s": -1}}], [{"$match": {"$expr": {"$gt": ["$n", 2]}}}],
                   [{"$set": {"sub": {"z": 1}}}], [{"$set": {"sub.z": 1}}], [{"$set": {"sub": {}}}], [{"$set": {"tags.q": 1}}], [{"$set": {"sub": "$$REMOVE"}}],
                   [{"$set": {"_id": {"$add": ["$_id", 1]}, "a": "$_id"}}], [{"$set": {"k": "$n", "n": "$k"}}], [{"$match": {}}], [],
                   [{"$project": {"x": "$sub.v", "y": "$tags.t", "z": "$sub.w.0"}}], [{"$project": {"sub": 1, "k": 1}}], [{"$project": {"z": "$n", "k": 1, "a": "$k", "n": 1}}],
                   [{"$sort": {"k": 1, "_id": 1}}], [{"$sort": {"tags": -1, "_id": 1}}], [{"$sort": {"sub.v": 1, "_id": 1}}], [{"$sort": {"sub": -1, "_id": 1}}],
                   [{"$sort": {}}], [{"$sort": {"k": {"$meta": "textScore"}}}], [{"$sort": {"k": 1, "sub.v": 1, "_id": 1}}], [{"$sort": {"tags.0": 1, "_id": 1}}],
                   [{"$sort": {"n": 1}}, {"$project": {"_id": 0, "n": 1}}], [{"$sort": {"$k": 1}}], [{"$sort": {"k.": 1}}])  # fmt: skip


def bucketing() -> Iterator[Pipeline]:
    for boundaries in each([0, 2, 5], [0, 5], [5, 0], [0, 0], [0], [], [0, "a"], ["a", "b", "c"], [0, 2.5, Int64(9)], [MinKey(), 0, MaxKey()],
                       [Decimal128("0"), 5], 5, [0, "$n"], [{"$add": [1, 1]}, 5], [DatetimeMS(0), DatetimeMS(10**12)], [None, 1]):  # fmt: skip
        for default in each("other", 1, None, "$n", -1, ...):
            spec = {
                "groupBy": "$n",
                "boundaries": boundaries,
                **({} if default is ... else {"default": default}),
            }
            yield [{"$bucket": spec}]
            yield [{"$bucket": {**spec, "output": {"count": {"$sum": 1}, "all": {"$push": "$_id"}}}}]
    for spec in each({}, {"groupBy": "$n"}, {"boundaries": [0, 1]}, {"groupBy": "n", "boundaries": [0, 1]}, {"groupBy": "$n", "boundaries": [0, 1], "x": 1},
                 {"groupBy": {"$add": ["$_id", 1]}, "boundaries": [0, 5, 20]}, {"groupBy": "$_id", "boundaries": [0, 5, 20], "output": 1},
                 {"groupBy": "$_id", "boundaries": [0, 5, 20], "output": {"a": 1}}, {"groupBy": 1, "boundaries": [0, 1]},
                 {"groupBy": "$_id", "boundaries": [0, 5, 20], "output": {}}):  # fmt: skip
        yield [{"$bucket": spec}]
    for buckets in each(1, 2, 3, 5, 20, 0, -1, 1.0, 1.5, "x", None):
        for key in each("$n", "$_id", "$k", "$d", "$missing"):
            yield [{"$bucketAuto": {"groupBy": key, "buckets": buckets}}]
    for granularity in each(
        "R5",
        "R10",
        "R20",
        "R40",
        "R80",
        "1-2-5",
        "E6",
        "E12",
        "E24",
        "E48",
        "E96",
        "E192",
        "POWERSOF2",
        "x",
        5,
        "",
    ):
        yield [{"$bucketAuto": {"groupBy": "$_id", "buckets": 3, "granularity": granularity}}]
        yield [{"$bucketAuto": {"groupBy": "$k", "buckets": 3, "granularity": granularity}}]
    for spec in each({}, {"groupBy": "$n"}, {"buckets": 2}, {"groupBy": "n", "buckets": 1}, {"groupBy": "$_id", "buckets": 2, "x": 1},
                 {"groupBy": "$_id", "buckets": 2, "output": {"a": {"$push": "$k"}}}, {"groupBy": "$_id", "buckets": 2, "output": {"a": 1}},
                 {"groupBy": {"a": "$_id"}, "buckets": 2}):  # fmt: skip
        yield [{"$bucketAuto": spec}]


def filling() -> Iterator[Pipeline]:
    """`$densify` and `$fill`."""
    for bounds in each(
        "full",
        "partition",
        [0, 10],
        [0, 3],
        [10, 0],
        [0],
        "x",
        5,
        [0.5, 3],
        [DatetimeMS(0), DatetimeMS(3 * _DAY)],
        [-2, 2],
        [],
    ):
        for step in each(1, 2, 0.5, 0, -1, "x", Decimal128("1.5"), Int64(3)):
            for field in each("_id", "m", "missing", "d"):
                yield [{"$densify": {"field": field, "range": {"bounds": bounds, "step": step}}}]
        for unit in each("day", "hour", "week", "x", 5):
            yield [
                {
                    "$densify": {
                        "field": "d",
                        "range": {"bounds": bounds, "step": 2 if unit == "day" else 48, "unit": unit},
                    }
                }
            ]
            yield [
                {
                    "$densify": {
                        "field": "d",
                        "partitionByFields": ["g"],
                        "range": {"bounds": bounds, "step": 2, "unit": unit},
                    }
                }
            ]
        for parts in each(["g"], [], "g", [1], ["missing"]):
            yield [
                {
                    "$densify": {
                        "field": "_id",
                        "partitionByFields": parts,
                        "range": {"bounds": bounds, "step": 2},
                    }
                }
            ]
    for spec in each({}, {"field": "m"}, {"field": "m", "range": {}}, {"field": "m", "range": {"step": 1}}, {"field": "m", "range": {"bounds": "full"}},
                 {"field": "$m", "range": {"bounds": "full", "step": 1}}, {"field": 5, "range": {"bounds": "full", "step": 1}},
                 {"field": "m", "range": {"bounds": "full", "step": 1}, "x": 1}, {"field": "q", "range": {"bounds": "full", "step": 1}},
                 {"field": "a.b", "range": {"bounds": [0, 2], "step": 1}}, {"field": "m", "range": {"bounds": "full", "step": 1, "x": 1}}):  # fmt: skip
        yield [{"$densify": spec}]
    for output in each({"m": {"value": 0}}, {"m": {"method": "linear"}}, {"m": {"method": "locf"}}, {"m": {"value": "$n"}}, {"m": {"method": "x"}}, {}, 5,
                   {"m": {"value": 0, "method": "locf"}}, {"m": 5}, {"missing": {"value": {"$add": ["$_id", 1]}}}, {"a.b": {"value": 1}},
                   {"m": {"method": "locf"}, "n": {"value": 1}}, {"m": {"method": 5}}, {"k": {"value": None}}):  # fmt: skip
        for extra in each({}, {"sortBy": {"_id": 1}}, {"sortBy": {"_id": -1}, "partitionBy": {"g": "$g"}}, {"sortBy": {"_id": 1}, "partitionByFields": ["g"]},
                      {"partitionBy": {"z": "$g"}, "partitionByFields": ["g"]}, {"sortBy": {"n": 1}}, {"partitionBy": {"z": "$g"}, "sortBy": {"_id": 1}},
                      {"sortBy": {"g": 1}}):  # fmt: skip
            yield [{"$fill": {"output": output, **extra}}]


def joining() -> Iterator[Pipeline]:
    fields = (
        "_id",
        "k",
        "n",
        "tags",
        "sub",
        "sub.v",
        "missing",
        "tags.t",
        "ref",
        "name",
        "d",
        "d.b",
        "parent",
        "d.0",
    )
    for local in fields:
        for foreign in fields:
            yield [
                {"$lookup": {"from": "people", "localField": local, "foreignField": foreign, "as": "r"}},
                {"$project": {"r._id": 1}},
            ]
    for extra in each([{"$match": {"_id": {"$gt": 2}}}], [], [{"$project": {"_id": 1}}], [{"$match": {"$expr": {"$eq": ["$name", "$$key"]}}}], [{"$count": "n"}],
                  [{"$limit": 1}], [{"$out": "x"}], [{"$nope": 1}], 5, [{"$sort": {"_id": -1}}], [{"$group": {"_id": "$name"}}, {"$sort": {"_id": 1}}]):  # fmt: skip
        for let in each({}, {"key": "$k"}, {"Key": 1}, 5, {"key": {"$nope": 1}}):
            yield [{"$lookup": {"from": "people", "let": let, "pipeline": extra, "as": "r"}}]
            yield [
                {
                    "$lookup": {
                        "from": "people",
                        "let": let,
                        "pipeline": extra,
                        "as": "r",
                        "localField": "k",
                        "foreignField": "name",
                    }
                }
            ]
    for spec in each({}, {"from": "people"}, {"from": "people", "as": "r"}, {"from": "people", "localField": "k", "as": "r"}, {"from": "people", "pipeline": []},
                 {"from": "people", "localField": "k", "foreignField": "name"}, {"from": "people", "pipeline": [], "as": "a.b"},
                 {"from": "people", "pipeline": [], "as": "$a"}, {"from": "people", "pipeline": [], "as": ""}, {"from": "nope", "pipeline": [], "as": "r"},
                 {"pipeline": [{"$documents": [{"x": 1}]}], "as": "r"}, {"pipeline": [], "as": "r"}, {"from": 5, "pipeline": [], "as": "r"},
                 {"from": "people", "localField": "$k", "foreignField": "name", "as": "r"}, {"from": "people", "localField": 5, "foreignField": "name", "as": "r"},
                 {"from": "people", "localField": "k", "foreignField": "name", "as": "r", "let": {}}, {"from": {"db": "x", "coll": "y"}, "pipeline": [], "as": "r"},
                 {"from": "people", "localField": "k", "foreignField": "name", "as": "sub.r"}, {"from": "people", "localField": "k", "foreignField": "name", "as": "k"},
                 {"from": "people", "localField": "k", "foreignField": "name", "as": "r", "x": 1}, {"from": "", "pipeline": [], "as": "r"},
                 {"from": "people", "localField": "", "foreignField": "name", "as": "r"}):  # fmt: skip
        yield [{"$lookup": spec}]
        yield [{"$lookup": spec}, {"$unwind": "$r"}]
    base = {
        "from": "sales",
        "startWith": "$parent",
        "connectFromField": "parent",
        "connectToField": "_id",
        "as": "r",
    }
    for change in each({}, {"maxDepth": 0}, {"maxDepth": 1}, {"depthField": "depth"}, {"depthField": "_id"}, {"restrictSearchWithMatch": {"k": "a"}}, {"maxDepth": -1},
                   {"maxDepth": 1.5}, {"maxDepth": "x"}, {"depthField": 5}, {"depthField": "$x"}, {"restrictSearchWithMatch": 5}, {"x": 1}, {"startWith": ["$parent", 2]},
                   {"startWith": None}, {"startWith": "$missing"}, {"connectFromField": "$parent"}, {"connectToField": ""}, {"as": "a.b"}, {"as": "$a"},
                   {"from": "nope"}, {"connectFromField": "_id", "connectToField": "parent", "startWith": "$_id"}, {"connectFromField": "tags", "connectToField": "tags", "startWith": "$tags"},
                   {"connectToField": "k", "startWith": "$k", "connectFromField": "k"}, {"startWith": {"$literal": [1, [7]]}}, {"depthField": "sub.x"},
                   {"restrictSearchWithMatch": {"$expr": {"$gt": ["$_id", 7]}}}, {"connectToField": "k", "startWith": Regex("^[ab]"), "connectFromField": "parent"}):  # fmt: skip
        sort = {
            "$set": {
                "r": {
                    "$cond": [{"$isArray": "$r"}, {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}, "$r"]
                }
            }
        }
        yield [{"$graphLookup": {**base, **change}}, sort]
        yield [{"$graphLookup": {name: value for name, value in base.items() if name not in change}}, sort]
    for spec in each("people", {"coll": "people"}, {"coll": "people", "pipeline": [{"$match": {"_id": 1}}]}, {"pipeline": [{"$documents": [{"x": 1}]}]}, {"pipeline": []},
                 {"coll": 5}, {"coll": "people", "x": 1}, "nope", {"coll": "people", "pipeline": [{"$out": "x"}]}, {"coll": "people", "pipeline": 5}, "",
                 {"coll": "people", "pipeline": [{"$unionWith": "sales"}, {"$count": "n"}]}, {"coll": "sales", "pipeline": [{"$group": {"_id": None, "n": {"$sum": "$_id"}}}]}):  # fmt: skip
        yield [{"$unionWith": spec}]
