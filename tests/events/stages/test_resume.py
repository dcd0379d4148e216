"""Resuming: the position where a stream continues, and the tokens that it refuses."""

from dataclasses import replace
from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tests.events.stages.streams import at, command, delete, entry, insert, open_engine, stream, types, update

PLAIN = [insert(1, 1), insert(2, 2), update(3, 1, {"u": {"a": 1}}), delete(4, 2), insert(5, 5)]
DROPPED = [
    insert(1, 1),
    command(2, {"drop": "orders"}),
    insert(3, 3),
    command(4, {"drop": "orders"}),
    insert(5, 5),
]


def test_resume_after_each_event_gives_the_later_ones() -> None:
    events = stream(PLAIN)
    for index, event in enumerate(events):
        assert stream(PLAIN, {"resumeAfter": event["_id"]}) == events[index + 1 :]
        assert stream(PLAIN, {"startAfter": event["_id"]}) == events[index + 1 :]


def test_start_at_operation_time_is_inclusive() -> None:
    events = stream(PLAIN)
    assert stream(PLAIN, {"startAtOperationTime": Timestamp(1_700_000_000, 3)}) == events[2:]


@pytest.mark.parametrize("version", [1, 2])
def test_a_high_water_mark_is_before_the_events_of_its_cluster_time(version: int) -> None:
    token = decode(ResumeToken.high_water_mark(at(3), version).to_bson())
    assert stream(PLAIN, {"resumeAfter": token}) == stream(PLAIN)[2:]


def test_a_version_1_token_finds_its_event_and_later_tokens_are_version_2() -> None:
    events = stream(PLAIN)
    token = ResumeToken.parse(encode(events[1]["_id"]))
    assert token.identifier is not None
    old = ResumeToken(
        cluster_time=token.cluster_time,
        version=1,
        uuid=token.uuid,
        identifier=encode(decode(token.identifier)["documentKey"]),
    )
    assert stream(PLAIN, {"resumeAfter": decode(old.to_bson())}) == events[2:]


def test_a_token_without_an_event_fails_when_a_later_event_arrives() -> None:
    token = ResumeToken.parse(encode(stream(PLAIN)[1]["_id"]))
    absent = ResumeToken(token.cluster_time, identifier=token.identifier, uuid=bytes(16))
    engine = open_engine({"resumeAfter": decode(absent.to_bson())})
    engine.push("", PLAIN[:1])
    assert engine.drain() == []
    engine.push("", PLAIN[1:])
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 280
    assert raised.value.labels == ("NonResumableChangeStreamError",)


@pytest.mark.parametrize(
    "stage",
    [
        {"$match": {"operationType": "delete"}},
        {"$match": {"fullDocument._id": {"$ne": 2}}},
        {"$redact": {"$cond": [{"$eq": ["$documentKey._id", 2]}, "$$PRUNE", "$$KEEP"]}},
    ],
)
def test_a_filter_that_removes_the_resume_event_makes_the_resume_fail(stage: dict[str, Any]) -> None:
    token = stream(PLAIN)[1]["_id"]
    with pytest.raises(CommandError) as raised:
        stream(PLAIN, {"resumeAfter": token}, [stage])
    assert raised.value.code == 280


def test_a_plain_stream_cannot_resume_after_an_expanded_event() -> None:
    oplog = [command(1, {"create": "orders"}), insert(2, 2)]
    token = stream(oplog, {"showExpandedEvents": True})[0]["_id"]
    assert types(stream(oplog, {"showExpandedEvents": True, "resumeAfter": token})) == ["insert"]
    with pytest.raises(CommandError) as raised:
        stream(oplog, {"resumeAfter": token})
    assert raised.value.code == 280


def test_a_version_1_token_of_an_expanded_event_names_its_type() -> None:
    oplog = [command(1, {"create": "orders", "capped": True}), insert(2, 2)]
    first, second = stream(oplog, {"showExpandedEvents": True})
    old = replace(ResumeToken.parse(encode(first["_id"])), version=1)
    assert stream(oplog, {"showExpandedEvents": True, "resumeAfter": decode(old.to_bson())}) == [second]


def test_a_start_in_the_future_waits_at_its_position() -> None:
    engine = open_engine({"startAtOperationTime": Timestamp(1_700_000_000, 9)})
    engine.push("", PLAIN)
    assert engine.drain() == []
    assert engine.post_batch_resume_token == ResumeToken.high_water_mark(at(9)).to_bson()
    engine.push("", [insert(9, 9)])
    assert len(engine.drain()) == 1


def test_the_first_position_is_the_token_itself() -> None:
    token = stream(PLAIN)[1]["_id"]
    engine = open_engine({"resumeAfter": {"_data": token["_data"].lower()}})
    assert decode(engine.post_batch_resume_token) == token
    engine.push("", PLAIN[:2])
    assert engine.drain() == []
    assert decode(engine.post_batch_resume_token) == token
    mark = decode(ResumeToken.high_water_mark(at(3), 1).to_bson())
    current = ResumeToken.high_water_mark(at(3)).to_bson()
    assert open_engine({"startAfter": mark}).post_batch_resume_token == current


def test_a_start_before_the_oldest_entry_fails_unless_the_oplog_is_complete() -> None:
    with pytest.raises(CommandError) as raised:
        stream(PLAIN, {"startAtOperationTime": Timestamp(1_600_000_000, 1)})
    assert raised.value.code == 286
    initiating = entry(1, "n", {"msg": "initiating set"}, ns="", ui=None)
    later = [initiating, *PLAIN[1:]]
    assert stream(later, {"startAtOperationTime": Timestamp(1_600_000_000, 1)}) == stream(PLAIN)[1:]
    for oldest in (
        insert(1, 1, msg="initiating set"),
        entry(1, "n", {"msg": "periodic noop"}, ns="", ui=None),
    ):
        with pytest.raises(CommandError) as raised:
            stream([oldest], {"startAtOperationTime": Timestamp(1_600_000_000, 1)})
        assert raised.value.code == 286


def test_start_after_an_invalidate_continues_until_the_next_one() -> None:
    first = stream(DROPPED)
    assert types(first) == ["insert", "drop", "invalidate"]
    second = stream(DROPPED, {"startAfter": first[-1]["_id"]})
    assert types(second) == ["insert", "drop", "invalidate"]
    assert types(stream(DROPPED, {"startAfter": second[-1]["_id"]})) == ["insert"]


def test_resume_after_an_invalidating_event_gives_its_invalidate() -> None:
    events = stream(DROPPED)
    assert stream(DROPPED, {"resumeAfter": events[1]["_id"]}) == events[2:]


def test_resume_after_refuses_an_invalidate_token() -> None:
    with pytest.raises(CommandError) as raised:
        stream(DROPPED, {"resumeAfter": stream(DROPPED)[-1]["_id"]})
    assert raised.value.code == 260


def test_a_hidden_invalidate_still_ends_the_stream() -> None:
    engine = open_engine({}, [{"$match": {"operationType": "insert"}}])
    engine.push("", DROPPED)
    assert types([decode(raw) for raw in engine.drain()]) == ["insert"]
    assert engine.done
    assert ResumeToken.parse(engine.post_batch_resume_token).from_invalidate


def test_resume_in_the_middle_of_a_transaction() -> None:
    operations = [
        {"op": "i", "ns": ns, "ui": ui, "o": {"_id": key}, "o2": {"_id": key}}
        for key, (ns, ui) in enumerate([("shop.orders", bytes_uuid(1)), ("shop.items", bytes_uuid(2))] * 3)
    ]
    transaction = command(
        2, {"applyOps": operations}, ns="admin.$cmd", ui=None, txnNumber=Int64(1), lsid={"id": bytes_uuid(9)}
    )
    oplog = [insert(1, 100), transaction, insert(3, 300)]
    events = stream(oplog, ns="shop")
    assert [event["documentKey"]["_id"] for event in events] == [100, 0, 1, 2, 3, 4, 5, 300]
    for index, event in enumerate(events):
        assert stream(oplog, {"resumeAfter": event["_id"]}, ns="shop") == events[index + 1 :]


def bytes_uuid(number: int) -> object:
    from bson import Binary

    return Binary(bytes([number]) * 16, 4)


def test_the_position_after_a_batch() -> None:
    engine = open_engine({"startAtOperationTime": Timestamp(1_700_000_000, 1)})
    start = ResumeToken.high_water_mark(at(1)).to_bson()
    assert engine.post_batch_resume_token == start
    engine.push("", [insert(1, 1)])
    (event,) = engine.drain()
    assert engine.post_batch_resume_token == encode(decode(event)["_id"])
    engine.push("", [insert(2, 2, ns="shop.items")])
    assert engine.drain() == []
    assert engine.post_batch_resume_token == ResumeToken.high_water_mark(at(2)).to_bson()


def test_the_position_changes_when_events_are_drained() -> None:
    engine = open_engine({"startAtOperationTime": Timestamp(1_700_000_000, 1)})
    engine.push("", DROPPED)
    assert engine.post_batch_resume_token == ResumeToken.high_water_mark(at(1)).to_bson()
    states = [engine.done]
    last = engine.drain()[-1]
    states.append(engine.done)
    assert states == [False, True]
    assert engine.post_batch_resume_token == encode(decode(last)["_id"])
    engine.push("", [insert(9, 9)])
    assert engine.drain() == []


def test_a_failed_stream_shows_no_later_events() -> None:
    engine = open_engine()
    engine.push("", [entry(1, "u", {"$set": {}}, o2={"_id": 1})])
    engine.push("", [insert(2, 2)])
    for _ in range(2):
        with pytest.raises(CommandError) as raised:
            engine.drain()
        assert raised.value.code == 6741200
