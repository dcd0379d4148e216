"""Events that end a stream, the `invalidate` after them, and restarts after it."""

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
def test_the_commands_that_end_each_stream(o: dict[str, Any], ns: str | None, kinds: list[str]) -> None:
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
def test_a_drop_or_rename_by_a_migration_ends_a_stream_that_shows_migrations(o: dict[str, Any]) -> None:
    oplog = [command(1, o, fromMigrate=True), insert(2, 2)]
    assert types(stream(oplog)) == ["insert"]
    kinds = types(stream(oplog, {"showMigrationEvents": True}))
    assert kinds[1:] == ["invalidate"]


def test_a_database_drop_marked_as_migration_does_not_end_the_stream() -> None:
    oplog = [drop_database(1, fromMigrate=True), insert(2, 2)]
    assert types(stream(oplog, ns="shop")) == ["insert"]


@pytest.mark.parametrize("ns", ["shop.orders", "shop.archive"])
def test_a_stream_restarted_after_a_rename_watches_the_same_name(ns: str) -> None:
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


def test_a_database_stream_can_be_restarted_after_its_invalidate() -> None:
    oplog = [insert(1, 1), drop_database(2), insert(3, 3), drop_database(4), insert(5, 5)]
    first = stream(oplog, ns="shop")
    second = stream(oplog, {"startAfter": first[-1]["_id"]}, ns="shop")
    third = stream(oplog, {"startAfter": second[-1]["_id"]}, ns="shop")
    assert [types(events) for events in (first, second, third)] == [
        ["insert", "dropDatabase", "invalidate"], ["insert", "dropDatabase", "invalidate"], ["insert"],
    ]  # fmt: skip


def test_a_pipeline_can_hide_the_invalidate_but_not_prevent_it() -> None:
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


def test_a_database_stream_with_a_hidden_invalidate_ends() -> None:
    engine = open_engine({}, [{"$match": {"operationType": "insert"}}], ns="shop")
    engine.push("", [drop_database(1, ns="other.$cmd"), insert(2, 2), drop_database(3), insert(4, 4)])
    assert types([decode(raw) for raw in engine.drain()]) == ["insert"]
    assert engine.done


def test_a_stream_can_be_started_after_an_invalidate_that_it_hides() -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2), delete(3, 2)]
    token = stream(oplog)[-1]["_id"]
    only_deletes = [{"$match": {"operationType": "delete"}}]
    assert types(stream(oplog, {"startAfter": token}, only_deletes)) == ["delete"]


def test_an_invalidate_of_another_collection_at_the_same_time_does_not_end_the_stream() -> None:
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


def test_a_token_of_version_1_finds_its_invalidate() -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2)]
    token = ResumeToken.parse(encode(stream(oplog)[-1]["_id"]))
    old = replace(token, version=1, identifier=None)
    events = stream(oplog, {"startAfter": decode(old.to_bson())})
    assert events == stream(oplog[1:])


@pytest.mark.parametrize("ns", ["shop", None])
def test_the_invalidate_of_a_narrower_stream_is_not_found_by_a_wider_one(ns: str | None) -> None:
    oplog = [command(1, {"drop": "orders"}), insert(2, 2)]
    token = stream(oplog)[-1]["_id"]
    with pytest.raises(CommandError) as raised:
        stream(oplog, {"startAfter": token}, ns=ns)
    assert raised.value.code == 280
