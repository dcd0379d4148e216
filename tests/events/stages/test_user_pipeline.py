"""User stages: which are allowed, what they can read, and what they must not change."""

from typing import Any

import bson
import pytest
from bson import Timestamp
from bson.raw_bson import RawBSONDocument

from tailrace.errors import CommandError
from tailrace.events.stream_release import StreamRelease
from tests.events.stages.streams import (
    code_of,
    command,
    delete,
    entry,
    insert,
    open_engine,
    stream,
    types,
    update,
)

OPLOG = [insert(1, 1, a=5), insert(2, 2, a=7), update(3, 1, {"u": {"a": 6}}), delete(4, 2)]


def failure_of(pipeline: list[Any], spec: dict[str, Any] | None = None) -> int:
    return code_of(OPLOG, spec, pipeline)


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$group": {"_id": 1}}], 20),
        ([{"$lookup": {}}], 20),
        ([{"$noSuchStage": {}}], 40324),
        ([{}], 40323),
        ([{"$match": {}, "$project": {"a": 1}}], 40323),
        (["$match"], 14),
        ([{"$changeStream": {}}], 40602),
        ([{"$changeStreamSplitLargeEvent": {"a": 1}}], 7182800),
        ([{"$changeStreamSplitLargeEvent": {}}, {"$match": {}}], 7182802),
        ([{"$changeStreamSplitLargeEvent": {}}, {"$changeStreamSplitLargeEvent": {}}], 7182802),
        ([{"$match": {"a": {"$noSuchOperator": 1}}}], 2),
        ([{"$project": {"x": {"$noSuchExpression": 1}}}], 31325),
        ([{"$addFields": {"x": {"$noSuchExpression": 1}}}], 168),
    ],
)
def test_a_bad_pipeline_is_refused_when_the_stream_is_opened(pipeline: list[Any], code: int) -> None:
    with pytest.raises(CommandError) as raised:
        open_engine({}, pipeline)
    assert raised.value.code == code


def test_match_and_project() -> None:
    events = stream(
        OPLOG, {}, [{"$match": {"fullDocument.a": {"$gte": 6}}}, {"$project": {"documentKey": 1}}]
    )
    assert [(list(event), event["documentKey"]) for event in events] == [(["_id", "documentKey"], {"_id": 2})]


@pytest.mark.parametrize(
    "stage",
    [
        {"$project": {"_id": 0}},
        {"$project": {"_id": 1, "operationType": 1, "_id._data": 0}},
        {"$unset": "_id"},
        {"$addFields": {"_id": 5}},
        {"$set": {"_id._data": "x"}},
        {"$replaceRoot": {"newRoot": "$ns"}},
        {"$replaceWith": {"a": 1}},
    ],
)
def test_a_stage_that_changes_the_id_fails(stage: dict[str, Any]) -> None:
    assert failure_of([stage]) in (280, 31249)


def test_a_stage_may_build_a_new_document_with_the_same_id() -> None:
    events = stream(OPLOG, {}, [{"$replaceWith": {"_id": "$_id", "kind": "$operationType"}}])
    assert [event["kind"] for event in events] == ["insert", "insert", "update", "delete"]


def test_events_before_a_failing_one_are_delivered() -> None:
    engine = open_engine(
        {}, [{"$replaceWith": {"$cond": [{"$eq": ["$operationType", "insert"]}, "$$ROOT", {}]}}]
    )
    engine.push("", OPLOG)
    assert len(engine.drain()) == 2
    for _ in range(2):
        with pytest.raises(CommandError) as raised:
            engine.drain()
        assert raised.value.code == 280


def test_redact_may_remove_events() -> None:
    redact = {"$redact": {"$cond": [{"$eq": ["$operationType", "delete"]}, "$$PRUNE", "$$KEEP"]}}
    assert types(stream(OPLOG, {}, [redact])) == ["insert", "insert", "update"]


def test_no_image_is_required_for_an_event_that_is_filtered_out() -> None:
    spec = {"fullDocumentBeforeChange": "required"}
    assert types(stream(OPLOG, spec, [{"$match": {"operationType": "insert"}}])) == ["insert", "insert"]
    assert failure_of([{"$redact": "$$PRUNE"}], spec) == 47
    assert failure_of([{"$match": {"fullDocumentBeforeChange.a": 1}}], spec) == 47


def test_variables_and_now() -> None:
    engine = open_engine(
        {}, [{"$match": {"$expr": {"$eq": ["$fullDocument.a", "$$wanted"]}}}], let={"wanted": 7}
    )
    engine.push("", OPLOG)
    assert len(engine.drain()) == 1
    assert len(stream(OPLOG, {}, [{"$match": {"$expr": {"$gt": ["$$NOW", "$wallTime"]}}}])) == 4


def test_collation_applies_to_the_users_stages() -> None:
    oplog = [insert(1, 1, name="Ada")]
    pipeline = [{"$match": {"fullDocument.name": "ada"}}]
    assert stream(oplog, {}, pipeline) == []
    assert len(stream(oplog, {}, pipeline, collation={"locale": "en", "strength": 2})) == 1


def test_explain_names_the_stages_in_order() -> None:
    from tailrace.events.scope import Scope
    from tailrace.events.stages.plan import Plan

    plan = Plan.open(
        Scope.parse_ns("shop.orders"),
        {
            "fullDocument": "updateLookup",
            "fullDocumentBeforeChange": "whenAvailable",
            "startAtOperationTime": Timestamp(1, 1),
        },
        [{"$match": {"operationType": "update"}}, {"$changeStreamSplitLargeEvent": {}}],
    )
    names = [
        stage["$changeStream"]["stage"].removeprefix("$_internalChangeStream")
        if "$changeStream" in stage
        else next(iter(stage))
        for stage in plan.explain()["stages"]
    ]
    assert names == [
        "OplogMatch", "UnwindTransaction", "Transform", "CheckInvalidate", "CheckResumability",
        "$match", "$match", "AddPreImage", "AddPostImage", "$changeStreamSplitLargeEvent",
    ]  # fmt: skip


def test_an_event_nested_too_deeply_fails_after_the_events_before_it() -> None:
    nested = bson.encode({})
    for _ in range(20_000):  # too deep for every version of Python
        nested = bson.encode({"a": RawBSONDocument(nested)})
    engine = open_engine({}, [{"$redact": "$$DESCEND"}])
    engine.push("", [insert(1, 1), insert(2, 2, deep=RawBSONDocument(nested))])
    assert len(engine.drain()) == 1
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 22


START = ["_id", "operationType", "clusterTime", "wallTime"]


def names_of(pipeline: list[Any], spec: dict[str, Any] | None = None, **options: Any) -> list[list[str]]:
    return [list(event)[len(START) :] for event in stream(OPLOG[1:], spec, pipeline, **options)]


def test_a_field_that_the_event_does_not_have_is_set_in_its_place() -> None:
    added = {"other": 1, "stateBeforeChange": 1, "updateDescription": 1, "fullDocument": 1}
    assert names_of([{"$set": added}]) == [
        ["fullDocument", "ns", "documentKey", "updateDescription", "stateBeforeChange", "other"]
    ] * len(OPLOG[1:])
    assert names_of([{"$unset": "ns"}, {"$set": {"other": 1}}, {"$set": {"ns": 1}}])[-1] == [
        "ns", "documentKey", "other",
    ]  # fmt: skip


def test_a_document_that_a_stage_makes_has_no_places() -> None:
    stages = [{"$project": dict.fromkeys((*START, "ns"), 1)}, {"$set": {"fullDocument": 1}}]
    assert names_of(stages)[-1] == ["ns", "fullDocument"]


def test_the_post_image_of_an_update_comes_before_the_namespace_up_to_release_8_2() -> None:
    spec = {"fullDocument": "updateLookup"}
    described = ["ns", "documentKey", "updateDescription"]
    assert names_of([], spec)[1] == ["fullDocument", *described]
    newer = StreamRelease.parse("8.3")
    assert names_of([], spec, release=newer)[1] == [*described, "fullDocument"]


NOT_SHOWN = (
    *("zz", "nsType", "stateBeforeChange", "rawUpdateDescription", "updateDescription"),
    *("operationDescription", "documentKey", "fullDocument", "collectionUUID"),
)
LAST = ["zz", "nsType"]


@pytest.mark.parametrize(
    ("spec", "placed", "others"),
    [
        (
            {},
            ["fullDocument", "ns", "documentKey", "updateDescription", "stateBeforeChange"],
            ["rawUpdateDescription", "operationDescription", "collectionUUID"],
        ),
        (
            {"showExpandedEvents": True},
            [
                *["collectionUUID", "fullDocument", "ns", "documentKey", "operationDescription"],
                *["updateDescription", "stateBeforeChange"],
            ],
            ["rawUpdateDescription"],
        ),
        (
            {"showRawUpdateDescription": True},
            ["fullDocument", "ns", "documentKey", "rawUpdateDescription", "stateBeforeChange"],
            ["updateDescription", "operationDescription", "collectionUUID"],
        ),
    ],
)
def test_fields_that_an_event_does_not_show_have_places(
    spec: dict[str, Any], placed: list[str], others: list[str]
) -> None:
    pipeline = [{"$set": dict.fromkeys(NOT_SHOWN, 0)}]
    oplog = [entry(1, "i", {"_id": 5}), command(2, {"drop": "orders"})]
    inserted, dropped, invalidated = (
        [name for name in event if name in (*NOT_SHOWN, "ns")] for event in stream(oplog, spec, pipeline)
    )
    assert inserted == [*placed, *LAST, *others]
    assert dropped == [*placed, *LAST, *others]
    assert invalidated == list(NOT_SHOWN)


def test_events_of_views_have_other_places() -> None:
    definition = entry(1, "i", {"_id": "shop.v", "viewOn": "c", "pipeline": []}, ns="shop.system.views")
    pipeline = [{"$set": dict.fromkeys(NOT_SHOWN, 0)}]
    (event,) = stream([definition], {"showExpandedEvents": True}, pipeline, ns="shop")
    first = ["ns", "operationDescription", "nsType"]
    assert [name for name in event if name in (*NOT_SHOWN, "ns")] == [
        *first,
        *(name for name in NOT_SHOWN if name not in first),
    ]
