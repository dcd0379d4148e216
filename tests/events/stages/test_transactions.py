"""Transactions and batches: the events of their operations, their order and fields, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stages.lookups import Lookups
from tests.events.stages.streams import OTHER_UUID, UUID, code_of, command, insert, open_engine, stream, types

FIRST: dict[str, Any] = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
SESSION: dict[str, Any] = {"lsid": {"id": UUID}, "txnNumber": Int64(3)}
PART: dict[str, Any] = {"o": {"partialTxn": True}}
MARKS_END = {"featureFlagEndOfTransactionChangeEvent": True}


def inserted(key: Any, ns: Any = "shop.orders", **fields: Any) -> dict[str, Any]:
    return {"op": "i", "ns": ns, "ui": UUID, "o": {"_id": key}, "o2": {"_id": key}, **fields}


def apply_ops(increment: int, operations: Sequence[Any], **fields: Any) -> bytes:
    o = {"applyOps": list(operations), **fields.pop("o", {})}
    return command(increment, o, **{"ns": "admin.$cmd", "ui": None, **fields})


def linked_to(increment: int) -> dict[str, Any]:
    return {"prevOpTime": {"ts": Timestamp(1_700_000_000, increment), "t": Int64(1)}}


def lookups_for(*entries: bytes) -> dict[str, Lookups]:
    """Return lookups that find these entries by their exact optime."""
    found: dict[tuple[int, int], bytes] = {}
    for raw in entries:
        fields = decode(raw)
        found[from_timestamp(fields["ts"]), fields["t"]] = raw
    return {"": Lookups(entry=lambda ts, term: found.get((ts, term)))}


def keys(events: Sequence[dict[str, Any]]) -> list[Any]:
    return [event["documentKey"]["_id"] for event in events]


def failure_of(*entries: bytes, **options: Any) -> int:
    return code_of(entries, lookups=lookups_for(*entries), **options)


@pytest.mark.parametrize(
    ("session", "shown"),
    [
        ({}, []),
        (SESSION, ["txnNumber", "lsid"]),
        ({"lsid": {"id": UUID}}, ["lsid"]),
        ({"txnNumber": Int64(3)}, ["txnNumber"]),
        ({**SESSION, "multiOpType": 0}, ["txnNumber", "lsid"]),
        ({**SESSION, "multiOpType": 1}, []),
        ({**SESSION, "multiOpType": 2}, []),
    ],
)
def test_session_fields(session: dict[str, Any], shown: list[str]) -> None:
    (event,) = stream([apply_ops(1, [inserted(1)], **session)])
    assert list(event) == [
        *shown, "_id", "operationType", "clusterTime", "wallTime", "fullDocument", "ns", "documentKey",
    ]  # fmt: skip


@pytest.mark.parametrize("session", [{}, SESSION, {**SESSION, "multiOpType": 2}])
def test_transactions_of_several_entries_are_followed(session: dict[str, Any]) -> None:
    chain = [
        apply_ops(1, [inserted(1), inserted(2, "shop.items")], **PART, **session, **FIRST),
        insert(2, "between"),
        apply_ops(3, [inserted(3)], **PART, **session, **linked_to(1)),
        apply_ops(5, [inserted(4), inserted(5)], o={"count": Int64(5)}, **session, **linked_to(3)),
    ]  # fmt: skip
    events = stream(chain, lookups=lookups_for(*chain))
    assert keys(events) == ["between", 1, 3, 4, 5]
    tokens = [ResumeToken.parse(encode(event["_id"])) for event in events[1:]]
    assert [token.txn_op_index for token in tokens] == [0, 2, 3, 4]
    assert {event["clusterTime"].inc for event in events[1:]} == {5}


def test_a_vectored_insert_does_not_follow_the_link_of_its_session() -> None:
    batch = apply_ops(3, [inserted(3, stmtId=1)], **SESSION, multiOpType=1, **linked_to(1))
    assert keys(stream([apply_ops(1, [inserted(1)], **SESSION, multiOpType=1), batch])) == [1, 3]


def test_a_link_must_name_an_earlier_entry_of_the_transaction() -> None:
    first = apply_ops(1, [inserted(1)], **PART, **FIRST)
    other_term = {"prevOpTime": {"ts": Timestamp(1_700_000_000, 1), "t": Int64(2)}}
    assert failure_of(first, apply_ops(2, [inserted(2)], **other_term)) == 286
    assert failure_of(first, apply_ops(2, [], **linked_to(2))) == 8881102
    assert failure_of(insert(1, 1), apply_ops(2, [], **linked_to(1))) == 40532
    itself = apply_ops(1, [], **PART, **linked_to(1))
    assert failure_of(itself, apply_ops(2, [], **linked_to(1))) == 8881102


def test_entries_that_do_not_commit_give_no_events() -> None:
    entries = [
        apply_ops(1, [inserted(1)], **PART),
        apply_ops(2, [inserted(2)], o={"prepare": True}),
        command(3, {"abortTransaction": 1}, ns="admin.$cmd", ui=None),
        apply_ops(4, [inserted(4)], o={"prepare": False, "partialTxn": 1, "allowAtomic": True}),
        command(5, {"applyOps": {"0": inserted(5)}}, ui=None),
        command(6, {"commitTransaction": 1}, ns="admin.$cmd", ui=None, **FIRST),
    ]
    assert keys(stream(entries, ns=None)) == [4]


def test_the_namespace_of_the_entry_does_not_matter() -> None:
    for ns in ("admin.$cmd", "other.$cmd", "shop.$cmd"):
        assert keys(stream([apply_ops(1, [inserted(1)], ns=ns)])) == [1]


def test_commands_in_a_transaction_are_shown_in_their_database() -> None:
    operations = [
        {"op": "c", "ns": f"{database}.$cmd", "ui": UUID, "o": {"create": "orders"}}
        for database in ("other", "shop", "admin")
    ]
    entry = apply_ops(1, [*operations, {**operations[1], "op": "x"}])
    for ns, databases in (("shop.orders", ["shop"]), ("shop", ["shop"]), (None, ["other", "shop"])):
        events = stream([entry], {"showExpandedEvents": True}, ns=ns)
        assert [event["ns"]["db"] for event in events] == databases


def test_a_transaction_of_a_migration_is_hidden_completely() -> None:
    moved = apply_ops(1, [inserted(1, fromMigrate=True), inserted(2, fromMigrate=True)], fromMigrate=True)
    assert stream([moved], {"showSystemEvents": True}) == []
    shown = stream([moved], {"showMigrationEvents": True})
    assert [event["fromMigrate"] for event in shown] == [True, True]


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (inserted(1, op=5), 5543808),
        ({"ns": "shop.orders", "o": {}}, 5543808),
        (inserted(1, op="n"), 5543809),
        (inserted(1, ns=5), 40532),
        (inserted(1, o="text"), 40532),
        ("text", 40532),
        ({"op": "i", "ns": "shop.orders", "o": {"_id": 1}}, 7826901),
        ({"op": "u", "ns": "shop.orders", "ui": UUID, "o": {"$set": {}}, "o2": {}}, 6741200),
    ],
)
def test_malformed_operations(operation: Any, code: int) -> None:
    engine = open_engine()
    engine.push("", [insert(1, 1), apply_ops(2, [inserted(2), operation, inserted(3)]), insert(4, 4)])
    assert keys([decode(raw) for raw in engine.drain()]) == [1, 2]
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == code


@pytest.mark.parametrize(
    "match",
    [
        {"fullDocument.n": 7},
        {"documentKey._id": 3},
        {"fullDocument.text": "seven"},
        {"operationType": "insert", "documentKey._id": {"$in": [3, 9]}},
    ],
)
def test_filtered_operations_are_those_that_match_with_their_own_tokens(match: dict[str, Any]) -> None:
    """Most are dropped by their bytes, before they are read."""
    operations = [inserted(1), inserted(2), inserted(3), {**inserted(4), "op": "d", "o2": None}]
    operations[2]["o"] |= {"n": 7.0, "text": "seven"}
    entry = apply_ops(1, operations, **SESSION, **FIRST)
    assert stream([entry], pipeline=[{"$match": match}]) == stream([entry])[2:3]


def test_an_operation_that_must_not_be_there_is_refused_whatever_is_filtered() -> None:
    entry = apply_ops(1, [inserted(1), inserted(2, op="n")], **SESSION, **FIRST)
    assert failure_of(entry, pipeline=[{"$match": {"fullDocument.n": 7}}]) == 5543809


@pytest.mark.parametrize("wrong", [{"lsid": "text"}, {"txnNumber": 3}, {"prevOpTime": Timestamp(1, 1)}])
def test_malformed_sessions(wrong: dict[str, Any]) -> None:
    assert failure_of(apply_ops(1, [inserted(1)], **wrong)) == 40532
    assert failure_of(apply_ops(1, [inserted(1)], **{**SESSION, **FIRST, **wrong})) == 40532


@pytest.mark.parametrize("link", [{}, {"t": Int64(-1)}, {"ts": Timestamp(0, 0)}])
def test_a_link_without_a_time_or_a_term_names_no_entry(link: dict[str, Any]) -> None:
    entry = apply_ops(1, [inserted(1)], **SESSION, prevOpTime=link)
    assert keys(stream([entry])) == [1]


def test_only_transactions_that_the_stream_may_show_are_unwound() -> None:
    foreign = [inserted(1, "shop.items"), inserted(1, "shop.items", op="n")]
    assert stream([apply_ops(1, foreign, **FIRST)]) == []
    assert failure_of(apply_ops(1, foreign)) == 5543809
    assert failure_of(apply_ops(1, foreign, **FIRST), ns="shop") == 5543809
    for name, code in (("create", 5543809), ("createIndexes", 5543809), ("drop", None)):
        ddl = {"op": "c", "ns": "shop.$cmd", "ui": UUID, "o": {name: "orders"}}
        entry = apply_ops(1, [*foreign, ddl], **FIRST)
        if code is None:
            assert stream([entry]) == []
        else:
            assert failure_of(entry) == code
            assert stream([entry], ns="shop.other") == []


def test_streams_on_the_namespaces_of_a_transaction_show_its_end() -> None:
    create = {"op": "c", "ns": "shop.$cmd", "ui": UUID, "o": {"create": "new"}}
    entry = apply_ops(1, [inserted(1, "shop.z"), create, inserted(2, "shop.a")], **SESSION)
    options: dict[str, Any] = {"parameters": MARKS_END}
    for ns in ("shop.new", "shop.a", "shop", None):
        events = stream([entry], {"showExpandedEvents": True}, ns=ns, **options)
        assert types(events)[-1] == "endOfTransaction"
        assert events[-1]["operationDescription"] == SESSION
        assert ResumeToken.parse(encode(events[-1]["_id"])).txn_op_index == 3
    assert stream([entry], {"showExpandedEvents": True}, ns="shop.other", **options) == []
    for session in ({}, {"lsid": {"id": UUID}}, {"txnNumber": Int64(3)}, {**SESSION, "multiOpType": 1}):
        batch = apply_ops(1, [inserted(1)], **session)
        assert types(stream([batch], {"showExpandedEvents": True}, **options)) == ["insert"]
    prepared = apply_ops(1, [inserted(1)], o={"prepare": True}, **SESSION, **FIRST)
    commit = command(2, {"commitTransaction": 1}, ns="admin.$cmd", ui=None, **SESSION, **linked_to(1))
    events = stream(
        [prepared, commit], {"showExpandedEvents": True}, lookups=lookups_for(prepared), **options
    )
    assert types(events) == ["insert"]
    drop = apply_ops(1, [{"op": "c", "ns": "shop.$cmd", "ui": UUID, "o": {"drop": "x"}}], **SESSION)
    assert failure_of(drop, spec={"showExpandedEvents": True}, **options) == 7694300


def test_the_order_of_an_events_fields() -> None:
    update = {
        "op": "u", "ns": "shop.orders", "ui": UUID, "o": {"$v": 2, "diff": {"u": {"a": 2}}}, "o2": {"_id": 1},
        "fromMigrate": True,
    }  # fmt: skip
    prepare = apply_ops(1, [inserted(0, "shop.items"), update], o={"prepare": True}, **FIRST)
    commit = command(
        4,
        {"commitTransaction": 1, "commitTimestamp": Timestamp(1_700_000_000, 3)},
        ns="admin.$cmd", ui=None, **SESSION, **linked_to(1),
    )  # fmt: skip
    image = encode({"_id": 1, "a": 1})
    found = lookups_for(prepare)[""].entry
    lookups = Lookups(
        found, lambda uuid, ts, index: image if (uuid, ts & 0xFF, index) == (bytes(UUID), 1, 1) else None
    )
    spec = {
        "showExpandedEvents": True, "showMigrationEvents": True, "showCommitTimestamp": True,
        "fullDocument": "required", "fullDocumentBeforeChange": "required",
    }  # fmt: skip
    (event,) = stream([prepare, commit], spec, lookups={"": lookups})
    assert list(event) == [
        "txnNumber", "lsid", "_id", "operationType", "clusterTime", "commitTimestamp", "collectionUUID",
        "wallTime", "fullDocument", "ns", "documentKey", "updateDescription", "fromMigrate",
        "fullDocumentBeforeChange",
    ]  # fmt: skip
    assert (event["clusterTime"].inc, event["commitTimestamp"].inc) == (4, 3)
    assert event["fullDocument"] == {"_id": 1, "a": 2}


def test_an_operation_on_another_collection_shows_its_uuid() -> None:
    entry = apply_ops(1, [inserted(1), inserted(2, "shop.items", ui=OTHER_UUID)])
    events = stream([entry], {"showExpandedEvents": True}, ns="shop")
    assert [event["collectionUUID"] for event in events] == [UUID, OTHER_UUID]
