"""Entries of operations that are logged together, sessions, and the removal of the oldest entries."""

from collections.abc import Callable
from typing import Any

import pytest
from bson import Binary, Int64

from tailrace.bson import documents
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.entry_bytes import Operation
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.oplog_truncation import truncate_before, truncate_to_size
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.table_writer import OPLOG_IDENT
from tailrace.mongod.store.transactions.sessions import (
    COMMITTED,
    NO_USER,
    PREPARED,
    SessionWrites,
    parts_of_write,
    session_key,
)
from tailrace.mongod.store.write_unit import WriteUnit
from tests.support.oplog_writer import session_id

Document = dict[str, Any]
LSID = session_id(bytes(range(16)), NO_USER)


@pytest.fixture
def collection(store: Store) -> Collection:
    return made(store)


def made(store: Store, **options: Any) -> Collection:
    return store.write_now(lambda unit: unit.create_collection("shop", "c", options))


def logged(store: Store, work: Callable[[WriteUnit], Any]) -> list[Document]:
    """The entries that a job logs."""
    before = store.last_committed
    store.write_now(work)
    with store.snapshot() as snapshot:
        return [documents.decode(raw) for _, raw in snapshot.entries(before)]


def sizes(found: list[Document]) -> list[int]:
    """How many operations each entry has."""
    return [len(entry["o"]["applyOps"]) if entry["op"] == "c" else 1 for entry in found]


def inserts(
    collection: Collection, number: int, first: int = 0, **fields: Any
) -> Callable[[WriteUnit], None]:
    def work(unit: WriteUnit) -> None:
        for n in range(first, first + number):
            unit.insert(collection, documents.encode({"_id": n, **fields}))

    return work


def deletes(collection: Collection, **how: Any) -> Callable[[WriteUnit], None]:
    def work(unit: WriteUnit) -> None:
        for position, (key, before) in enumerate(list(unit.records(collection))):
            unit.delete(
                collection, key, before, stmt_id=position if how.get("statements") else None, grouped=True
            )

    return work


def test_inserts_share_entries_up_to_a_number(store: Store, collection: Collection) -> None:
    store.most_inserts = 3
    found = logged(store, inserts(collection, 7))
    assert sizes(found) == [3, 3, 1]
    assert [operation["o"]["_id"] for operation in found[0]["o"]["applyOps"]] == [0, 1, 2]
    assert found[2]["o"] == {"_id": 6}
    assert found[2]["o2"] == {"_id": 6}
    assert "multiOpType" not in found[0]  # only those of a session have it
    # The number is that of inserts: deletes have the usual one.
    assert sizes(logged(store, deletes(collection))) == [7]


def test_operations_share_entries_up_to_500(store: Store, collection: Collection) -> None:
    assert sizes(logged(store, inserts(collection, 1001))) == [500, 500, 1]
    store.most_inserts = 5000
    assert sizes(logged(store, deletes(collection))) == [500, 500, 1]
    assert sizes(logged(store, inserts(collection, 1001))) == [1001]


def test_inserts_share_an_entry_until_one_reaches_256_kilobytes(store: Store, collection: Collection) -> None:
    half = (128 << 10) - len(documents.encode({"_id": 0, "x": ""}))
    assert sizes(logged(store, inserts(collection, 4, x="y" * half))) == [2, 2]
    assert sizes(logged(store, inserts(collection, 4, 4, x="y" * (half - 1)))) == [3, 1]


def test_operations_share_entries_up_to_the_size_of_a_document(store: Store, collection: Collection) -> None:
    # Two of these fit into 16 MiB less 64 KiB, with 256 bytes for each besides the document.
    small = {"_id": 0, "x": "y" * 200_000}
    room = (16 << 20) - (64 << 10) - 2 * 256 - len(documents.encode(small))
    large = room - len(documents.encode({"_id": 1, "x": ""}))

    def pair(first: int, size: int) -> Callable[[WriteUnit], None]:
        def work(unit: WriteUnit) -> None:
            unit.insert(collection, documents.encode({**small, "_id": first}))
            unit.insert(collection, documents.encode({"_id": first + 1, "x": "y" * size}))

        return work

    assert sizes(logged(store, pair(0, large))) == [2]
    assert sizes(logged(store, pair(2, large + 1))) == [1, 1]


def test_deletes_are_listed_in_reverse_with_their_pre_images(store: Store) -> None:
    collection = made(store, changeStreamPreAndPostImages={"enabled": True})
    store.write_now(inserts(collection, 3, x=1))
    (entry,) = logged(store, deletes(collection))
    assert [operation["o"]["_id"] for operation in entry["o"]["applyOps"]] == [2, 1, 0]
    with store.snapshot() as snapshot:
        images = [
            snapshot.pre_image(collection.uuid, from_timestamp(entry["ts"]), position)
            for position in range(3)
        ]
    assert [documents.decode(image)["preImage"]["_id"] for image in images if image is not None] == [2, 1, 0]


def test_operations_of_other_kinds_and_collections_do_not_share_entries(
    store: Store, collection: Collection
) -> None:
    other = store.write_now(lambda unit: unit.create_collection("shop", "other"))
    store.write_now(inserts(collection, 2))

    def work(unit: WriteUnit) -> None:
        inserts(collection, 2, 10)(unit)
        inserts(other, 2)(unit)
        deletes(other)(unit)
        inserts(collection, 1, 20)(unit)

    found = logged(store, work)
    assert sizes(found) == [2, 2, 2, 1]
    store.logs_batches = False
    assert sizes(logged(store, inserts(collection, 3, 30))) == [1, 1, 1]


def test_moved_documents_are_marked(store: Store, collection: Collection) -> None:
    def moving(work: Callable[[WriteUnit], None]) -> Callable[[WriteUnit], None]:
        def moved(unit: WriteUnit) -> None:
            unit.moves_data = True
            work(unit)

        return moved

    (several,) = logged(store, moving(inserts(collection, 2)))
    (one,) = logged(store, moving(inserts(collection, 1, 5)))
    (deleted,) = logged(store, moving(deletes(collection)))
    for entry in (several, one, deleted):
        assert entry["fromMigrate"] is True
    for entry in (several, deleted):
        assert [operation["fromMigrate"] for operation in entry["o"]["applyOps"]] == [True] * len(
            entry["o"]["applyOps"]
        )
    (plain,) = logged(store, inserts(collection, 2))
    assert "fromMigrate" not in plain
    assert "fromMigrate" not in plain["o"]["applyOps"][0]


def test_statements_of_a_session_share_entries_with_their_numbers(
    store: Store, collection: Collection
) -> None:
    def work(unit: WriteUnit) -> None:
        unit.open_session(LSID, 7)
        for n in range(3):
            unit.insert(collection, documents.encode({"_id": n}), stmt_id=10 + n)

    (entry,) = logged(store, work)
    assert entry["txnNumber"] == 7
    assert entry["multiOpType"] == 1
    assert [operation["stmtId"] for operation in entry["o"]["applyOps"]] == [10, 11, 12]

    def more(unit: WriteUnit) -> None:
        assert unit.open_session(LSID, 7).last.ts == from_timestamp(entry["ts"])
        unit.insert(collection, documents.encode({"_id": 9}), stmt_id=13)

    (single,) = logged(store, more)
    assert (single["stmtId"], single["prevOpTime"]["ts"]) == (13, entry["ts"])
    assert "multiOpType" not in single


# -- sessions --------------------------------------------------------------------------------------------


def part(number: int, *, session: bytes = bytes(range(16)), uuid: int = 1) -> bytes:
    """The session of a transaction as which a router runs a retryable write."""
    fields = {**documents.decode(session_id(session, NO_USER)), "txnNumber": Int64(number)}
    return documents.encode({**fields, "txnUUID": Binary(bytes([uuid]) * 16, 4)})


def test_a_new_part_of_a_write_replaces_the_parts_of_older_writes(store: Store) -> None:
    kept = [
        SessionWrites(LSID, 4, state=COMMITTED),
        SessionWrites(part(3, uuid=9), 0, state=PREPARED),
        SessionWrites(part(3, session=bytes(range(1, 17))), 0, state=COMMITTED),
        SessionWrites(part(5), 0, state=COMMITTED),
        SessionWrites(part(5, uuid=2), 0, state=COMMITTED),
    ]
    gone = [SessionWrites(part(number), 0, state=COMMITTED) for number in (3, 4)]

    def work(unit: WriteUnit) -> None:
        for session in [*gone, *kept]:
            unit.put_session(session)

    store.write_now(work)
    with store.snapshot() as snapshot:
        for session in gone:
            assert snapshot.session_record(session_key(session.lsid)) is None
        for session in kept:
            assert snapshot.session_record(session_key(session.lsid)) is not None


def test_the_committed_parts_of_a_write(store: Store) -> None:
    found = SessionWrites(part(5), 0, state=COMMITTED)
    again = SessionWrites(part(5, uuid=2), 3, state=COMMITTED)
    others = [
        SessionWrites(part(5, uuid=4), 0, state=PREPARED),
        SessionWrites(part(5, session=bytes(range(1, 17))), 0, state=COMMITTED),
    ]

    def work(unit: WriteUnit) -> None:
        for session in (found, again, *others):
            unit.put_session(session)

    store.write_now(work)
    with store.snapshot() as snapshot:
        parts = list(parts_of_write(snapshot, SessionWrites(LSID, 5)))
        assert sorted(part.lsid for part in parts) == sorted([found.lsid, again.lsid])
        assert sorted(part.txn_number for part in parts) == [0, 3]
        assert list(parts_of_write(snapshot, SessionWrites(LSID, 4))) == []


# -- the oldest entries ----------------------------------------------------------------------------------


def times(store: Store) -> list[int]:
    with store.snapshot() as snapshot:
        return [ts for ts, _ in snapshot.entries()]


def log_some(store: Store, number: int = 6) -> None:
    for n in range(number):
        store.write_now(lambda unit, n=n: unit.log(Operation("n", "", documents.encode({"msg": n}))))  # type: ignore[misc]


def test_entries_before_a_time_are_removed(store: Store) -> None:
    log_some(store)
    all_times = times(store)
    store.write_now(lambda unit: truncate_before(unit, all_times[3]))
    assert times(store) == all_times[3:]
    assert store.truncated_through == all_times[2]
    store.write_now(lambda unit: truncate_before(unit, all_times[3]))
    assert times(store) == all_times[3:]
    # The history holds everything before this time, and its reader needs the entry itself.
    store.write_now(lambda unit: truncate_before(unit, all_times[5], held_through=all_times[4]))
    assert times(store) == all_times[4:]
    with store.snapshot() as snapshot:
        assert snapshot.truncated_through() == all_times[3]
    store.write_now(lambda unit: truncate_before(unit, all_times[-1] + 1))
    assert times(store) == []


def test_a_large_oplog_loses_its_oldest_entries_but_one(store: Store) -> None:
    log_some(store)
    all_times = times(store)

    def counted(unit: WriteUnit) -> tuple[int, int]:
        return unit.count_of(OPLOG_IDENT)

    number, size = store.write_now(counted)
    assert number == len(all_times)
    store.write_now(lambda unit: truncate_to_size(unit, size))
    assert times(store) == all_times
    store.write_now(lambda unit: truncate_to_size(unit, size - 1))
    assert times(store) == all_times[1:]
    store.write_now(lambda unit: truncate_to_size(unit, 0, held_through=all_times[3]))
    assert times(store) == all_times[3:]
    store.write_now(lambda unit: truncate_to_size(unit, 0))
    assert times(store) == all_times[-1:]
    with store.snapshot() as snapshot:
        (raw,) = [raw for _, raw in snapshot.entries()]
    assert store.write_now(counted) == (1, len(raw))


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("is_held", [True, False])
def test_a_history_gets_transactions_as_a_whole(store: Store, *, partial: bool, is_held: bool) -> None:
    first = documents.encode({"applyOps": [], "partialTxn": partial})
    before = store.last_committed
    for o in (first, first, documents.encode({"applyOps": []}), documents.encode({"create": "c"})):
        store.write_now(lambda unit, o=o: unit.log(Operation("c", "admin.$cmd", o)))  # type: ignore[misc]
    with store.snapshot() as snapshot:
        after = [ts for ts, _ in snapshot.entries(before)]
    held = after[-1] + 1 if is_held else None
    store.write_now(lambda unit: truncate_before(unit, after[0] + 1, held_through=held))
    assert times(store) == (after[3:] if partial and is_held else after[1:])
    # Also up to where the history goes: no entry from there on is removed.
    store.write_now(lambda unit: truncate_before(unit, after[-1] + 1, held_through=after[-1]))
    assert times(store) == after[-1:]
