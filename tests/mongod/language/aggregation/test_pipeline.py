"""Whole pipelines: places of stages, laziness, pauses, unchanged bytes, limits."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from bson import DatetimeMS

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import (
    PAUSE,
    Pause,
    PipelineContext,
    compile_pipeline,
    leading_match,
)
from tailrace.pacing import set_pacer
from tailrace.query.collation import Collation
from tests.mongod.language.aggregation.pipeline_helpers import (
    Collections,
    assert_code,
    assert_results,
    results,
)

T = TypeVar("T")
CONTEXT = PipelineContext("shop", "here")

STRUCTURE: list[tuple[list[Any], int]] = [
    ([1], 14),
    ([{}], 40323),
    ([{"$match": {}, "$limit": 1}], 40323),
    ([{"$nothing": 1}], 40324),
    ([{"match": {}}], 40324),
    ([{"$match": 1}], 15959),
    ([{"$match": {}}, {"$changeStream": {}}], 40602),
    ([{"$match": 1}, {"$changeStream": {}}], 15959),
    ([{"$match": {}}, {"$changeStream": 1}], 6188500),
    ([{"$changeStream": {}}, {"$group": {"_id": 1}}], 20),
    ([{"$changeStream": {}}, {"$group": {}}], 15955),
    ([{"$changeStream": {}}, {"$group": {}}, {"$nothing": 1}], 40324),
    ([{"$changeStream": {}}, {"$group": {}}, {"$facet": {}}], 40169),
    ([{"$changeStream": {}}, {"$mergeCursors": {}}], 5491300),
    ([{"$changeStream": {}}, {"$changeStreamSplitLargeEvent": 1}], 7182899),
    ([{"$changeStream": {}}, {"$changeStreamSplitLargeEvent": {}}, {"$match": {}}], 7182802),
    ([{"$changeStreamSplitLargeEvent": {}}], 20),
    ([{"$match": {}}, {"$collStats": {}}], 40602),
    ([{"$match": {}}, {"$geoNear": {}}], 5860400),
    ([{"$out": "x"}, {"$match": {}}], 40601),
    ([{"$merge": "x"}, {"$match": {}}], 40601),
    ([{"$facet": {"a": [{"$changeStream": {}}]}}], 40600),
    ([{"$facet": {"a": [{"$facet": {"b": []}}]}}], 40600),
    ([{"$facet": {"a": [{"$out": "x"}]}}], 40600),
    ([{"$facet": {"a": [{"$collStats": {}}]}}], 40600),
    ([{"$lookup": {"from": "c", "as": "x", "pipeline": [{"$changeStream": {}}]}}], 51047),
    ([{"$lookup": {"from": "c", "as": "x", "pipeline": [{"$out": "x"}]}}], 51047),
    ([{"$lookup": {"from": "c", "as": "x", "pipeline": [{"$merge": "x"}]}}], 51047),
    ([{"$unionWith": {"coll": "c", "pipeline": [{"$changeStream": {}}]}}], 31441),
    ([{"$unionWith": {"coll": "c", "pipeline": [{"$out": "x"}]}}], 31441),
    ([{"$unionWith": {"coll": "c", "pipeline": [{"$listLocalSessions": {}}]}}], 73),
    ([{"$search": {}}], 31082),
    ([{"$geoNear": {"near": [1, 1], "distanceField": "d"}}], 27),
    ([{"$queryStats": {}}], 73),
    ([{"$_internalSplitPipeline": {}}], 115),
    ([{"$currentOp": {}}], 73),
    ([{"$documents": []}], 73),
    ([{"$limit": 1}] * 1001, 7749501),
]


@pytest.mark.parametrize(("stages", "code"), STRUCTURE)
def test_structure(stages: list[Any], code: int) -> None:
    assert_code(stages, code)


@pytest.mark.parametrize(("stages", "code"), [([], 73), ([{"$match": {}}], 73), ([{"$unionWith": "c"}], 73)])
def test_without_a_collection(stages: list[Any], code: int) -> None:
    assert_code(stages, code, collection=None)


@pytest.mark.parametrize("stage", [{"$out": "x"}, {"$merge": "x"}, {"$collStats": {}}])
def test_not_in_a_transaction(stage: dict[str, Any]) -> None:
    assert_code([stage], 263, in_transaction=True)


def nested_lookup(depth: int) -> list[Any]:
    return [{"$lookup": {"from": "c", "as": "x", "pipeline": nested_lookup(depth - 1)}}] if depth else []


def test_the_depth_of_pipelines_is_limited() -> None:
    assert_code(nested_lookup(21), 232)
    assert_results(nested_lookup(20), [{"a": 1}], [{"a": 1, "x": []}])


def test_an_empty_pipeline_passes_everything() -> None:
    documents = [{"_id": 1, "a": [1, {"b": None}]}, {}]
    assert_results([], documents, documents)


def test_nothing_is_read_before_it_is_needed() -> None:
    read = []

    def source() -> Iterator[bytes]:
        for number in range(1000):
            read.append(number)
            yield encode({"n": number})

    stages = [{"$match": {"n": {"$mod": [2, 0]}}}, {"$skip": 1}, {"$set": {"m": "$n"}}, {"$limit": 2}]
    run = compile_pipeline(stages, CONTEXT).run(source())
    assert read == []
    assert [decode(raw) for raw in run if raw is not PAUSE] == [{"n": 2, "m": 2}, {"n": 4, "m": 4}]
    assert read == [0, 1, 2, 3, 4]


def test_documents_that_are_not_changed_keep_their_bytes() -> None:
    raw = encode({"a": 1, "_id": 2})
    stages = [{"$match": {"a": 1}}, {"$sort": {"a": 1}}, {"$skip": 0}, {"$limit": 5}]
    (result,) = compile_pipeline(stages, CONTEXT).run([raw])
    assert result is raw


PAUSING: list[list[dict[str, Any]]] = [
    [{"$match": {"n": 3}}],
    [{"$project": {"n": 1}}],
    [{"$skip": 1}, {"$limit": 2}],
    [{"$unwind": "$n"}],
    [{"$sort": {"n": -1}}],
    [{"$group": {"_id": "$n"}}],
    [{"$count": "n"}],
    [{"$bucketAuto": {"groupBy": "$n", "buckets": 2}}],
    [{"$facet": {"a": [{"$match": {"n": 1}}]}}],
    [{"$sample": {"size": 2}}],
    [{"$lookup": {"from": "c", "localField": "n", "foreignField": "n", "as": "x"}}],
    [{"$unionWith": "c"}],
    [{"$setWindowFields": {"output": {"s": {"$sum": "$n"}}}}],
    [{"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}}],
    [{"$fill": {"output": {"m": {"value": 1}}}}],
]


@pytest.mark.parametrize("stages", PAUSING)
def test_pauses_are_passed_on_while_documents_are_collected(stages: list[dict[str, Any]]) -> None:
    def source() -> Iterator[bytes | Pause]:
        for number in range(5):
            yield PAUSE
            yield encode({"n": number})

    context = PipelineContext("shop", "here", services=Collections({"c": [{"n": 1}, {"n": 2}]}))
    pipeline = compile_pipeline(stages, context)
    run = pipeline.run(source())
    assert next(run) is PAUSE
    assert any(item is not PAUSE for item in run)


class CountingPacer:
    def __init__(self) -> None:
        self.ticks = 0

    def look(self) -> None:
        self.ticks += 1

    def aside(self, work: Callable[[], T]) -> T:
        return work()


@pytest.mark.parametrize(
    "stage",
    [
        {"$sort": {"n": 1}},
        {"$group": {"_id": "$n"}},
        {"$set": {"a": {"$reduce": {"input": {"$range": [0, 3000]}, "initialValue": 0, "in": "$$this"}}}},
        {"$project": {"a": {"$setUnion": [{"$range": [0, 3000]}, ["$n"]]}}},
        {"$match": {"n": {"$in": list(range(3000))}}},
        {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"a": {"$sum": "$n"}}}},
    ],
    ids=lambda stage: next(iter(stage)),
)
def test_a_stage_ticks_while_it_computes(stage: dict[str, Any]) -> None:
    pacer = CountingPacer()
    set_pacer(pacer)
    try:
        run = list(compile_pipeline([stage], CONTEXT).run(encode({"n": number}) for number in range(50)))
    finally:
        set_pacer(None)
    assert run
    assert pacer.ticks >= 50


def test_variables() -> None:
    stages = [
        {"$match": {"$expr": {"$gt": ["$n", "$$least"]}}},
        {"$project": {"n": 1, "now": "$$NOW", "x": "$$least"}},
    ]
    variables = {"least": 1, "NOW": DatetimeMS(7)}
    assert_results(
        stages, [{"n": 1}, {"n": 2}], [{"n": 2, "now": DatetimeMS(7), "x": 1}], variables=variables
    )
    assert_code([{"$project": {"x": "$$unknown"}}], 17276)


def test_collation_reaches_every_stage() -> None:
    collation = Collation.parse({"locale": "en", "strength": 2})
    documents = [{"t": "b"}, {"t": "A"}, {"t": "B"}, {"t": "a"}]
    stages = [
        {"$match": {"t": {"$in": ["a", "b"]}}},
        {"$sort": {"t": 1}},
        {"$group": {"_id": "$t", "all": {"$push": "$t"}, "set": {"$addToSet": "$t"}, "max": {"$max": "$t"}}},
    ]
    expected = [
        {"_id": "A", "all": ["A", "a"], "set": ["A"], "max": "A"},
        {"_id": "b", "all": ["b", "B"], "set": ["b"], "max": "b"},
    ]
    assert_results(stages, documents, expected, collation=collation)


def test_a_result_that_is_too_large() -> None:
    documents = [{"t": "x" * 9_000_000}, {"t": "x" * 9_000_000}]
    assert_code([{"$group": {"_id": None, "all": {"$push": "$t"}}}], 10334, documents)
    stages = [{"$group": {"_id": None, "all": {"$push": "$t"}}}, {"$project": {"n": {"$size": "$all"}}}]
    assert_results(stages, documents, [{"_id": None, "n": 2}])


def test_a_document_that_is_nested_too_deeply() -> None:
    value: Any = 1
    for _ in range(150):
        value = {"a": value}
    expression: Any = "$a"
    for _ in range(100):
        expression = {"$concatArrays": [[expression]]}
    assert len(results([{"$project": {"x": expression}}], [value])) == 1
    for _ in range(3000):
        expression = {"$concatArrays": [[expression]]}
    assert_code([{"$project": {"x": expression}}], 15, [value])


def test_foreign_collections_are_listed_before_the_run() -> None:
    stages = [
        {"$lookup": {"from": "a", "as": "x", "pipeline": [{"$unionWith": "b"}]}},
        {"$facet": {"f": [{"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "x"}}]}},
    ]
    pipeline = compile_pipeline(stages, CONTEXT)
    assert pipeline.foreign == {("shop", "a"), ("shop", "b"), ("shop", "c")}
    assert pipeline.reads_collection


def test_leading_match() -> None:
    assert leading_match([{"$limit": 1}, {"$match": {"a": 1}}]) == ({}, [{"$limit": 1}, {"$match": {"a": 1}}])
    assert leading_match([{"$match": {"a": 1}}, {"$limit": 1}]) == ({"a": 1}, [{"$limit": 1}])
    assert leading_match([{"$match": 1}]) == ({}, [{"$match": 1}])


def test_without_services_other_collections_cannot_be_read() -> None:
    pipeline = compile_pipeline([{"$unionWith": "c"}], CONTEXT)
    with pytest.raises(CommandError) as caught:
        list(pipeline.run([]))
    assert caught.value.code == 20


def test_server_sources() -> None:
    pipeline = compile_pipeline(
        [{"$currentOp": {"allUsers": True}}, {"$match": {"name": "$currentOp"}}],
        PipelineContext("admin", None, services=Collections()),
    )
    assert not pipeline.reads_collection
    assert [decode(raw) for raw in pipeline.run([]) if raw is not PAUSE] == [
        {"name": "$currentOp", "spec": {"allUsers": True}, "database": "admin", "collection": None}
    ]
    stages = [{"$unionWith": {"coll": "c", "pipeline": [{"$collStats": {"count": {}}}]}}]
    assert results(stages) == [
        {"name": "$collStats", "spec": {"count": {}}, "database": "shop", "collection": "c"}
    ]
