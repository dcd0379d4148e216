"""What ends a stream, what it shows then, and how to go on behind it."""

from dataclasses import replace
from typing import Any

import pytest

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tests.events.stages.streams import OTHER_UUID, command, delete, insert, open_engine, stream, types

RENAME = {"renameCollection": "shop.orders", "to": "shop.archive", "stayTemp": False}
REPLACED = {**RENAME, "dropTarget": OTHER_UUID}


def drop_database(increment: int, **fields: Any) -> bytes:
    return command(increment, {"dropDatabase": 1}, ui=None, **{"fromMigrate": False, **fields})


@pytest.mark.parametrize(
    ("o", "ns", "kinds"),
    [
        ({"drop": "orders"}, "shop.orders", ["drop", "invalidate"]),
        ({"drop": "orders"}, "shop", ["drop", "insert"]),
        ({"drop": "items"}, "shop.orders", ["insert"]),
        (RENAME, "shop.orders", ["rename", "invalidate"]),
        (RENAME, "shop.archive", ["rename", "invalidate"]),
        (REPLACED, "shop.archive", ["rename", "invalidate"]),
        (RENAME, "shop", ["rename", "insert"]),
        (RENAME, None, ["rename", "insert"]),
        ({"dropDatabase": 1}, "shop.orders", ["insert"]),
        ({"dropDatabase": 1}, "shop", ["dropDatabase", "invalidate"]),
        ({"dropDatabase": 1}, None, ["dropDatabase", "insert"]),
    ],
)
def test_what_ends_which_stream(o: dict[str, Any], ns: str | None, kinds: list[str]) -> None:
    engine = open_engine(ns=ns)
    engine.push("", [command(1, o), insert(2, 2, ns="shop.orders")])
    events = [decode(raw) for raw in engine.drain()]
    assert types(events) == kinds
    assert engine.done is (kinds[-1] == "invalidate")
    if engine.done:
        cause, last = events
        assert list(last) == ["_id", "operationType", "clusterTime", "wallTime"]
        assert (last["clusterTime"], last["wallTime"]) == (cause["clusterTime"], cause["wallTime"])
        token = ResumeToken.parse(encode(cause["_id"]))
        assert ResumeToken.parse(encode(last["_id"])) == replace(token, from_invalidate=True)
        assert engine.post_batch_resume_token == encode(last["_id"])


@pytest.mark.parametrize("o", [{"drop": "orders"}, RENAME])
def test_what_a_migration_does_ends_a_stream_that_sees_it(o: dict[str, Any]) -> None:
    oplog = [command(1, o, fromMigrate=True), insert(2, 2)]
    assert types(stream(oplog)) == ["insert"]
    kinds = types(stream(oplog, {"showMigrationEvents": True}))
    assert kinds[1:] == ["invalidate"]


def test_the_database_dropped_by_another_shard_does_not_end_the_stream() -> None:
    oplog = [drop_database(1, fromMigrate=True), insert(2, 2)]
    assert types(stream(oplog, ns="shop")) == ["insert"]


@pytest.mark.parametrize("ns", ["shop.orders", "shop.archive"])
def test_a_stream_goes_on_under_its_own_name(ns: str) -> None:
    oplog = [
        command(1, RENAME),
        insert(2, "a", ns="shop.orders"),
        insert(3, "b", ns="shop.archive"),
        command(4, {"drop": ns.removeprefix("shop.")}),
    ]
    token = stream(oplog, ns=ns)[-1]["_id"]
    events = stream(oplog, {"startAfter": token}, ns=ns)
    assert types(events) == ["insert", "drop", "invalidate"]
    assert f"shop.{events[0]['ns']['coll']}" == ns


def test_a_database_stream_goes_on_behind_its_end() -> None:
    oplog = [insert(1, 1), drop_database(2), insert(3, 3), drop_database(4), insert(5, 5)]
    first = stream(oplog, ns="shop")
    second = stream(oplog, {"startAfter": first[-1]["_id"]}, ns="shop")
    third = stream(oplog, {"startAfter": second[-1]["_id"]}, ns="shop")
    assert [types(events) for events in (first, second, third)] == [
        ["insert", "dropDatabase", "invalidate"], ["insert", "dropDatabase", "invalidate"], ["insert"],
    ]  # fmt: skip


def test_the_user_may_hide_the_end_but_not_prevent_it() -> None:
    oplog = [insert(1, 1), command(2, {"drop": "orders"}), insert(3, 3)]
    for pipeline, kinds in (
        ([{"$match": {"operationType": {"$nin": ["drop"]}}}], ["insert", "invalidate"]),
        ([{"$match": {"operationType": "drop"}}], ["drop"]),
        ([{"$match": {"operationType": "delete"}}], []),
        ([{"$redact": "$$PRUNE"}], []),
    ):
        engine = open_engine({}, pipeline)
        engine.push("", oplog)
        assert types([decode(raw) for raw in engine.drain()]) == kinds
        assert engine.done
        assert ResumeToken.parse(engine.post_batch_resume_token).from_invalidate


def test_a_database_stream_that_hides_its_end_ends() -> None:
    engine = open_engine({}, [{"$match": {"operationType": "insert"}}], ns="shop")
    engine.push("", [drop_database(1, ns="other.$cmd"), insert(2, 2), drop_database(3), insert(4, 4)])
    assert types([decode(raw) for raw in engine.drain()]) == ["insert"]
    assert engine.done


def test_a_hidden_end_can_still_be_started_after() -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2), delete(3, 2)]
    token = stream(oplog)[-1]["_id"]
    only_deletes = [{"$match": {"operationType": "delete"}}]
    assert types(stream(oplog, {"startAfter": token}, only_deletes)) == ["delete"]


def test_an_end_at_the_same_time_but_of_something_else_is_passed() -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2), command(3, {"drop": "orders"})]
    token = ResumeToken.parse(encode(stream(oplog)[-1]["_id"]))
    other = replace(token, uuid=bytes(OTHER_UUID))
    engine = open_engine({"startAfter": decode(other.to_bson())})
    engine.push("", oplog[:1])
    assert engine.drain() == []
    assert not engine.done
    engine.push("", oplog[1:])
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 280


def test_an_old_token_finds_its_end() -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2)]
    token = ResumeToken.parse(encode(stream(oplog)[-1]["_id"]))
    old = replace(token, version=1, identifier=None)
    events = stream(oplog, {"startAfter": decode(old.to_bson())})
    assert events == stream(oplog[1:])


@pytest.mark.parametrize("ns", ["shop", None])
def test_the_end_of_a_narrow_stream_is_nothing_to_a_wider_one(ns: str | None) -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2)]
    token = stream(oplog)[-1]["_id"]
    with pytest.raises(CommandError) as raised:
        stream(oplog, {"startAfter": token}, ns=ns)
    assert raised.value.code == 280
