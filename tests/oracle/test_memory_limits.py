"""Limits of memory beside the real server: which stages use the disk, which fail, and with which code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.oracle.twins import Twins, end_cursors

SORT = "internalQueryMaxBlockingSortMemoryUsageBytes"
GROUP = "internalDocumentSourceGroupMaxMemoryBytes"
WINDOW = "internalDocumentSourceSetWindowFieldsMaxMemoryBytes"
PUSH = "internalQueryMaxPushBytes"
SET = "internalQueryMaxAddToSetBytes"
TOP = "internalQueryTopNAccumulatorBytes"
FACET = "internalQueryFacetMaxOutputDocSizeBytes"
DENSIFY = "internalDocumentSourceDensifyMaxMemoryBytes"
LOOKUP = "internalLookupStageIntermediateDocumentMaxSizeBytes"
BY_DEFAULT = "allowDiskUseByDefault"
DEFAULT = 104_857_600


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    documents = [{"_id": n, "a": n % 7, "s": "x" * 1000, "n": n} for n in range(400)]
    twins.same({"insert": "items", "documents": documents})
    return twins


@contextmanager
def limited(twins: Twins, **limits: Any) -> Iterator[None]:
    for name, value in limits.items():
        twins.both({"setParameter": 1, name: value, "$db": "admin"})
    try:
        yield
    finally:
        for name in limits:
            before = True if name == BY_DEFAULT else DEFAULT
            twins.both({"setParameter": 1, name: before, "$db": "admin"})


def group(**accumulator: Any) -> dict[str, Any]:
    return {"$group": {"_id": None, "p": accumulator}}


def window(function: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"x": function}, **options}}


def total(bounds: list[Any]) -> dict[str, Any]:
    return {"$sum": "$n", "window": {"documents": bounds}}


LIMITED = [
    ([{"$sort": {"n": -1}}], {SORT: 50_000}),
    ([{"$project": {"x": {"$add": ["$n", 1]}}}, {"$sort": {"x": -1}}], {SORT: 20_000}),
    ([{"$sort": {"n": -1}}, {"$limit": 10}], {SORT: 50_000}),
    ([{"$sort": {"n": -1}}, {"$limit": 100}], {SORT: 50_000}),
    ([{"$sort": {"n": -1}}], {SORT: 50_000, BY_DEFAULT: False}),
    ([{"$sample": {"size": 200}}], {SORT: 50_000}),
    ([{"$group": {"_id": "$n"}}, {"$sort": {"_id": 1}}], {GROUP: 5_000}),
    ([{"$group": {"_id": "$a", "p": {"$push": "$s"}}}, {"$sort": {"_id": 1}}], {GROUP: 20_000}),
    ([group(**{"$mergeObjects": "$$ROOT"})], {GROUP: 1000}),
    ([group(**{"$sum": "$n"})], {GROUP: 100}),
    ([{"$sortByCount": "$n"}, {"$sort": {"_id": 1}}], {GROUP: 10_000}),
    ([group(**{"$push": "$s"})], {PUSH: 10_000}),
    ([group(**{"$addToSet": "$n"})], {SET: 5_000}),
    ([group(**{"$topN": {"n": 100, "output": "$s", "sortBy": {"n": 1}}})], {TOP: 10_000}),
    ([group(**{"$top": {"output": "$s", "sortBy": {"n": 1}}})], {TOP: 100}),
    ([group(**{"$firstN": {"n": 100, "input": "$s"}})], {TOP: 10_000}),
    ([group(**{"$lastN": {"n": 100, "input": "$s"}})], {TOP: 10_000}),
    ([group(**{"$maxN": {"n": 100, "input": "$s"}})], {TOP: 10_000}),
    ([{"$bucketAuto": {"groupBy": "$s", "buckets": 3, "output": {"p": {"$push": "$s"}}}}], {PUSH: 10_000}),
    ([window({"$sum": "$n"})], {SORT: 50_000}),
    ([window({"$sum": "$n"})], {WINDOW: 50_000}),
    ([window({"$sum": "$n"}, partitionBy="$n")], {WINDOW: 50_000}),
    ([window({"$rank": {}})], {WINDOW: 50_000}),
    ([window(total(["unbounded", "current"]))], {WINDOW: 50_000}),
    ([window(total([-1, 1]))], {WINDOW: 50_000}),
    ([window({"$push": "$n"})], {PUSH: 1000}),
    ([{"$facet": {"a": [{"$match": {}}]}}], {FACET: 50_000}),
    ([{"$facet": {"a": [{"$sort": {"n": 1}}, {"$limit": 5}]}}], {SORT: 1000}),
    ([{"$facet": {"a": [{"$group": {"_id": "$n"}}, {"$count": "k"}]}}], {GROUP: 1000}),
    (
        [
            {"$densify": {"field": "n", "partitionByFields": ["s", "_id"],
             "range": {"step": 1, "bounds": "partition"}}},
        ],
        {DENSIFY: 5000},
    ),
    (
        [
            {"$limit": 1},
            {"$lookup": {"from": "items", "pipeline": [{"$sort": {"s": 1}}, {"$count": "k"}], "as": "x"}},
        ],
        {SORT: 50_000},
    ),
    ([{"$unionWith": {"coll": "items", "pipeline": [{"$sort": {"s": 1}}]}}, {"$count": "k"}], {SORT: 50_000}),
]  # fmt: skip


@pytest.mark.parametrize("disk", [None, True, False])
@pytest.mark.parametrize(("pipeline", "limits"), LIMITED)
def test_a_pipeline_fails_where_the_real_one_does(
    filled: Twins, pipeline: list[Any], limits: dict[str, Any], disk: bool | None
) -> None:
    command: dict[str, Any] = {"aggregate": "items", "pipeline": pipeline, "cursor": {"batchSize": 1000}}
    if disk is not None:
        command["allowDiskUse"] = disk
    with limited(filled, **limits):
        pair = filled.both({**command, "$db": "test"})
    if "$sample" in pipeline[0]:
        assert pair.real["ok"] == pair.ours["ok"]
        assert pair.real.get("code") == pair.ours.get("code")
    else:
        assert not pair.differences, f"{pipeline}\n{pair.real}\n{pair.ours}"


@pytest.mark.parametrize("disk", [None, True, False])
@pytest.mark.parametrize("limit", [0, 10])
def test_a_find_that_sorts_fails_where_the_real_one_does(
    filled: Twins, limit: int, disk: bool | None
) -> None:
    command: dict[str, Any] = {"find": "items", "sort": {"n": -1}, "limit": limit, "batchSize": 300}
    if disk is not None:
        command["allowDiskUse"] = disk
    with limited(filled, **{SORT: 50_000}):
        pair = filled.run(command)
        assert not pair.differences, f"{pair.real}\n{pair.ours}"
        end_cursors(filled, pair)


@pytest.mark.parametrize("name", [SORT, GROUP, WINDOW, PUSH, SET, TOP, FACET, DENSIFY, LOOKUP])
def test_the_limits_accept_what_the_real_ones_accept(filled: Twins, name: str) -> None:
    filled.same({"getParameter": 1, name: 1}, "admin")
    for value in (0, -1, 1, 1.5, "x", 2**31, 2**40, 50_000_000):
        filled.same({"setParameter": 1, name: value}, "admin")
    filled.same({"setParameter": 1, name: DEFAULT}, "admin")


def test_sizes_of_single_stages_have_fixed_limits(filled: Twins) -> None:
    """150 MB of documents in one array, by `$lookup` and by `$graphLookup`."""
    for start in range(0, 150, 30):
        large = [{"_id": n, "s": "y" * 1_000_000} for n in range(start, start + 30)]
        filled.run({"insert": "large", "documents": large})
    lookup = {"from": "large", "pipeline": [], "as": "x"}
    graph = {
        "from": "large",
        "startWith": list(range(150)),
        "connectFromField": "none",
        "connectToField": "_id",
        "as": "x",
    }
    for stage in ({"$lookup": lookup}, {"$graphLookup": graph}):
        pipeline = [{"$limit": 1}, stage, {"$project": {"n": 1}}]
        filled.same({"aggregate": "items", "pipeline": pipeline, "cursor": {}})
    filled.same({"drop": "large"})
