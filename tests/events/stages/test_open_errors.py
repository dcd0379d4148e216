"""Errors when a stream is opened: invalid pipelines, variables, and tokens that are no position."""

from typing import Any

import pytest
from bson import Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tests.events.stages.streams import UUID, insert, open_engine, stream

HEAD = "826553F10000000001"
NULL_UUID, UUID_HEX = "14", "5A1004" + bytes(UUID).hex().upper()
DROP = "463C6F7065726174696F6E54797065003C64726F700000"


def open_code(spec: dict[str, Any], pipeline: Any = (), **options: Any) -> int:
    with pytest.raises(CommandError) as raised:
        open_engine(spec, pipeline, **options)
    return raised.value.code


STREAM: list[Any] = [{"$changeStream": {}}]


@pytest.mark.parametrize(
    ("stage", "code", "on_router"),
    [
        ({"$changeStream": {}}, 40602, 40602),
        ({"$facet": {"a": [], "b": STREAM}}, 40600, 40600),
        ({"$lookup": {"from": "items", "as": "x", "pipeline": STREAM}}, 51047, 51047),
        ({"$unionWith": {"coll": "items", "pipeline": STREAM}}, 31441, 31441),
        ({"$facet": {"a": [{"$match": {}}]}}, 20, 20),
        ({"$unionWith": "items"}, 20, 20),
        ({"$merge": {"whenMatched": STREAM}}, 20, 20),
        ({"$sort": {"a": 1}}, 20, 20),
        ({"$_internalChangeStreamTransform": {}}, 20, 50988),
        ({"$changeStreams": {}}, 40324, 40324),
    ],
)
def test_stages_that_are_refused(stage: dict[str, Any], code: int, on_router: int) -> None:
    for pipeline in ([stage], [{"$match": {}}, stage]):
        assert open_code({}, pipeline) == code
        assert open_code({}, pipeline, on_router=True) == on_router


@pytest.mark.parametrize(
    ("data", "code"),
    [
        # a valid token, but not a position where a stream can start
        (HEAD + "2B0429296E" + UUID_HEX + "04", 6189505),
        (HEAD + "2B04292B026E1404", 6189505),
        (HEAD + "2B022C0100296E" + NULL_UUID + DROP + "04", 50788),
        # does not begin with a cluster time
        ("3C6100" + "2B0429296E1404", 9),
        ("788000000000000000" + "2B0429296E1404", 9),
        ("01" + HEAD + "2B0429296E1404", 9),
        # names a fragment, but nothing is split
        (HEAD + "2B042C0100296E" + UUID_HEX + DROP + "2904", 280),
    ],
)
def test_tokens_that_are_refused(data: str, code: int) -> None:
    for ns in ("shop", None):
        for option in ("resumeAfter", "startAfter"):
            assert open_code({option: {"_data": data}}, ns=ns) == code


def test_a_stream_that_splits_events_can_resume_from_a_fragment() -> None:
    token = {"_data": HEAD + "2B042C0100296E" + UUID_HEX + DROP + "2904"}
    open_engine({"resumeAfter": token}, [{"$changeStreamSplitLargeEvent": {}}])


def test_a_high_water_mark_of_any_version_is_accepted_in_every_scope() -> None:
    for version in (1, 2):
        mark = decode(ResumeToken.high_water_mark(5 << 32, version).to_bson())
        for ns in ("shop.orders", "shop", None):
            engine = open_engine({"resumeAfter": mark}, ns=ns)
            assert engine.post_batch_resume_token == ResumeToken.high_water_mark(5 << 32).to_bson()


@pytest.mark.parametrize(
    ("let", "code"),
    [
        ({"x": "$operationType"}, 4890500),
        ({"x": "$$ROOT"}, 4890500),
        ({"x": {"$divide": [1, 0]}}, 2),
        ({"x": "$$unknown"}, 17276),
        ({"x": "$$y", "y": 1}, 17276),
        ({"X": 1}, 9),
        ({"": 1}, 9),
        ({"a.b": 1}, 9),
        ({"x": {"$noSuchExpression": 1}}, 168),
    ],
)
def test_bad_variables(let: dict[str, Any], code: int) -> None:
    assert open_code({}, let=let) == code


def test_variables_are_expressions() -> None:
    let = {"one": 1, "two": {"$add": ["$$one", 1]}, "text": {"$literal": "$x"}}
    (event,) = stream([insert(1, 1)], {}, [{"$addFields": {"a": ["$$two", "$$text"]}}], let=let)
    assert event["a"] == [2, "$x"]


def test_stages_can_use_the_cluster_time() -> None:
    at_least = {"$match": {"$expr": {"$gt": ["$$CLUSTER_TIME", Timestamp(1_700_000_000, 1)]}}}
    assert len(stream([insert(1, 1)], {}, [at_least])) == 1


def test_a_repeated_option_is_refused() -> None:
    flag = encode({"showExpandedEvents": True})[4:-1]
    spec = (len(flag) * 2 + 5).to_bytes(4, "little") + flag * 2 + b"\0"
    with pytest.raises(CommandError) as raised:
        Plan.open(Scope.parse_ns("shop"), spec)
    assert raised.value.code == 40413


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$match": {"a": {"$nope": 1}}}, 2),
        ({"$project": {"a": 1, "b": 0}}, 31254),
        ({"$set": {"a": {"$nope": 1}}}, 168),
        ({"$set": {"a": {"$divide": [1, 0]}}}, 2),
        ({"$set": {"a": "$$nope"}}, 17276),
        ({"$unset": 5}, 31002),
        ({"$replaceWith": {"$nope": 1}}, 168),
        ({"$redact": {"$nope": 1}}, 168),
    ],
)
def test_stages_with_errors_are_refused_before_anything_is_read(stage: dict[str, Any], code: int) -> None:
    for pipeline in ([stage], [{"$unset": "zz"}, stage]):
        with pytest.raises(CommandError) as raised:
            Plan.open(Scope.parse_ns("shop.orders"), {}, pipeline)
        assert raised.value.code == code


def test_fill_is_allowed_with_values_alone() -> None:
    fill = {"$fill": {"output": {"a": {"value": 5}, "ns": {"value": 6}, "b.c": {"value": "$operationType"}}}}
    (event,) = stream([insert(1, 1)], pipeline=[fill])
    assert (event["a"], event["ns"], event["b"]) == (5, {"db": "shop", "coll": "orders"}, {"c": "insert"})
    for spec in ({}, 5, {"output": 5}, {"output": {"a": 5}}, {"output": {"a": {"method": "locf"}}}):
        assert open_code({}, [{"$fill": spec}]) == 20
    for output in (
        {"a": {"value": 1}, "b": {"method": "locf"}},
        {"a": {"method": "locf"}, "b": {"value": 1}},
    ):
        assert open_code({}, [{"$fill": {"output": output}}]) == 20
