"""Any pipeline or projection gives results or an error with a code, and ends."""

import random
from typing import Any

import pytest
from bson import Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.bson.values import Symbol, Undefined
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import PAUSE, PipelineContext, compile_pipeline
from tailrace.mongod.language.find_projection import compile_find_projection
from tailrace.query.match import compile_match
from tests.mongod.language.aggregation.pipeline_helpers import Collections

VALUES: list[Any] = [
    None, True, 0, 1, -1, 1.5, float("nan"), float("inf"), 2**40, Int64(-(2**63)), Decimal128("NaN"),
    Decimal128("-Infinity"), Decimal128("1.5"), "", "a", "v", "a.b", "$v", "$$ROOT", "$", "$a..b", "full",
    "unbounded", "day", DatetimeMS(0), DatetimeMS(-(2**63)), DatetimeMS(2**62), ObjectId(b"a" * 12),
    Timestamp(1, 1), Regex("a", "i"), MinKey(), MaxKey(), Code("f"), Symbol("s"), Undefined(), b"x", [], {},
    [1, 2], [[1], {"v": 2}], {"v": 1}, {"$add": [1, "$v"]}, {"$divide": ["$v", "$x"]}, {"$literal": "$v"},
]  # fmt: skip
PLAIN = [value for value in VALUES if not (isinstance(value, dict) and "v" not in value and value)]
NAMES = ["a", "v", "n", "$sum", "$v", "", "a.b", "window", "pipeline", "input"]
QUANTILES = {"input": "$v", "method": "approximate", "p": [0.5]}
STAGES: list[dict[str, Any]] = [
    {"$match": {"v": {"$gt": 1}, "$expr": {"$lt": ["$x", 5]}}},
    {"$project": {"v": 1, "n.v": "$v", "s": {"$add": ["$v", 1]}}},
    {"$group": {"_id": {"v": "$v"}, "n": {"$sum": "$v"}, "d": {"$stdDevPop": "$v"}, "a": {"$avg": "$x"}}},
    {"$group": {"_id": "$v", "n": {"$firstN": {"input": "$v", "n": 2}}, "p": {"$percentile": QUANTILES}}},
    {"$group": {"_id": 1, "t": {"$topN": {"sortBy": {"v": 1}, "output": "$v", "n": 2}}, "m": {"$max": "$v"}}},
    {"$sort": {"v": 1, "a.b": -1}},
    {"$limit": 3},
    {"$skip": 1},
    {"$count": "n"},
    {"$sortByCount": "$v"},
    {"$sample": {"size": 2}},
    {"$unwind": {"path": "$v", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True}},
    {"$bucket": {"groupBy": "$v", "boundaries": [0, 5, 10], "default": "o", "output": {"n": {"$sum": 1}}}},
    {"$bucketAuto": {"groupBy": "$v", "buckets": 3, "granularity": "E24"}},
    {"$facet": {"a": [{"$sort": {"v": -1}}], "b": [{"$count": "n"}]}},
    {"$lookup": {"from": "c", "localField": "v", "foreignField": "x", "as": "r"}},
    {"$lookup": {"from": "c", "let": {"q": "$v"}, "pipeline": [{"$set": {"q": "$$q"}}], "as": "r"}},
    {"$graphLookup": {"from": "c", "startWith": "$v", "connectFromField": "x", "connectToField": "v",
                      "as": "r", "maxDepth": 3, "depthField": "d"}},
    {"$unionWith": {"coll": "c", "pipeline": [{"$match": {"v": 1}}]}},
    {"$merge": {"into": "x", "on": ["a"], "whenMatched": [{"$set": {"a": 1}}], "let": {"z": "$v"}}},
    {"$densify": {"field": "v", "partitionByFields": ["x"], "range": {"step": 1, "bounds": [0, 5]}}},
    {"$fill": {"sortBy": {"x": 1}, "output": {"v": {"method": "linear"}, "a": {"value": 1}}}},
    {"$setWindowFields": {"partitionBy": "$a", "sortBy": {"x": 1}, "output": {
        "s": {"$sum": "$v", "window": {"range": [-1, 1]}},
        "m": {"$push": "$v", "window": {"documents": [-1, 1]}},
        "d": {"$derivative": {"input": "$v"}, "window": {"documents": [-1, 0]}}}}},
    {"$setWindowFields": {"sortBy": {"x": 1}, "output": {
        "e": {"$expMovingAvg": {"input": "$v", "alpha": 0.5}}, "r": {"$rank": {}}, "l": {"$locf": "$v"},
        "h": {"$shift": {"output": "$v", "by": 1, "default": 0}}, "c": {"$covariancePop": ["$v", "$x"]}}}},
]  # fmt: skip
PROJECTIONS: list[dict[str, Any]] = [
    {"v": 1, "a.b": 1},
    {"v": 0, "x": {"$slice": [1, 2]}},
    {"v": {"$elemMatch": {"$gt": 1}}, "s": "$x"},
    {"v.$": 1},
]


def mutated(value: Any, draw: random.Random) -> Any:
    if draw.random() < 0.06:
        return draw.choice(VALUES)
    if isinstance(value, dict):
        pairs = [(key, mutated(item, draw)) for key, item in value.items() if draw.random() > 0.03]
        return {(draw.choice(NAMES) if draw.random() < 0.03 else key): item for key, item in pairs}
    if isinstance(value, list):
        return [mutated(item, draw) for item in value]
    return value


def documents(draw: random.Random) -> list[bytes]:
    names = ["_id", "v", "x", "a"]
    return [
        encode({name: draw.choice(PLAIN) for name in names if draw.random() < 0.8})
        for _ in range(draw.randrange(6))
    ]


@pytest.mark.parametrize("seed", range(8))
def test_any_pipeline(seed: int) -> None:
    draw = random.Random(seed)
    outcomes = {"results": 0, "errors": 0}
    for _ in range(250):
        stages = [mutated(draw.choice(STAGES), draw) for _ in range(draw.choice([1, 1, 2, 3]))]
        raw = documents(draw)
        services = Collections({"c": [decode(item) for item in raw]})
        try:
            pipeline = compile_pipeline(stages, PipelineContext("shop", "here", services=services))
            for item in pipeline.run(raw):
                if item is not PAUSE:
                    decode(item)
            outcomes["results"] += 1
        except CommandError:
            outcomes["errors"] += 1
    assert min(outcomes.values()) > 50, "both kinds are worth having"


@pytest.mark.parametrize("seed", range(4))
def test_any_projection(seed: int) -> None:
    draw = random.Random(seed)
    matcher = compile_match({"v": {"$gt": 0}})
    outcomes = {"results": 0, "errors": 0}
    for _ in range(250):
        spec = mutated(draw.choice(PROJECTIONS), draw)
        if not isinstance(spec, dict):
            continue
        try:
            projection = compile_find_projection(spec, matcher=matcher)
            for raw in documents(draw):
                decode(projection.apply(raw))
            outcomes["results"] += 1
        except CommandError:
            outcomes["errors"] += 1
    assert min(outcomes.values()) > 50, "both kinds are worth having"
