"""Which entries a history needs that continues at a cluster time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp

from tailrace.bson.documents import encode
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import Operation
from tailrace.log.oplogs import StoreOplog, removable_before
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import NO_USER, SessionWrites
from tests.mongod.store.opening import opened
from tests.support.oplog_writer import session_id

LSID = session_id(bytes(range(16)), NO_USER)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as store:
        yield store


def log(store: Store, o: dict[str, Any], session: SessionWrites | None = None, **how: Any) -> int:
    operation = Operation("c", "admin.$cmd", encode(o))
    return store.write_now(lambda unit: unit.log(operation, session=session, **how))


def chain(store: Store, **last: Any) -> tuple[SessionWrites, list[int]]:
    """Log a transaction of three entries."""
    session = SessionWrites(LSID, 1)
    entries: list[dict[str, Any]] = [{"partialTxn": True}, {"partialTxn": True}, last]
    return session, [log(store, {"applyOps": [], **fields}, session) for fields in entries]


def test_a_transaction_is_needed_from_its_beginning_on(store: Store) -> None:
    alone = log(store, {"create": "c"})
    _, times = chain(store)
    assert removable_before(store, alone) == alone
    assert [removable_before(store, time) for time in times] == [times[0]] * 3
    between = times[-1] + 5
    assert removable_before(store, between) == between
    # Batches of retryable writes are linked like that, and each counts for itself.
    session = SessionWrites(LSID, 2)
    first = log(store, {"applyOps": []}, session, multi_op_type=1)
    second = log(store, {"applyOps": []}, session, multi_op_type=1)
    assert [removable_before(store, time) for time in (first, second)] == [first, second]


def test_a_chain_whose_beginning_was_removed(store: Store) -> None:
    _, times = chain(store)
    store.write_now(store.truncate_oplog(times[1]))
    assert removable_before(store, times[2]) == times[1]


@pytest.mark.parametrize(
    ("end", "is_needed"), [("commitTransaction", True), ("abortTransaction", False), ("none", False)]
)
def test_a_transaction_that_is_committed_later_is_needed(store: Store, end: str, is_needed: bool) -> None:
    session, times = chain(store, prepare=True)
    through = log(store, {"create": "c"})
    ended = times[-1]
    if end != "none":
        ended = log(store, {end: 1, "commitTimestamp": to_timestamp(times[-1])}, session)
    oplog = StoreOplog(store)
    oplog.resume(ended)
    assert store.prepared.oldest_needed(through) == through
    oplog.resume(through)
    assert store.prepared.oldest_needed(through) == (times[0] if is_needed else through)
    assert store.prepared.oldest_needed(ended + 1) == ended + 1


def test_the_name_of_a_commit_in_a_document_commits_nothing(store: Store) -> None:
    _, times = chain(store, prepare=True)
    through = log(store, {"create": "c"})
    text = {"commitTransaction": 1, "commitTimestamp": Timestamp(1, 1)}
    message = Operation("n", "", encode({"msg": text}))
    store.write_now(lambda unit: unit.log(message))
    log(store, {"create": "d", "x": text})
    log(store, text)  # without a session it has no entry before it
    StoreOplog(store).resume(through)
    assert store.prepared.oldest_needed(through) == through
    assert times


def test_a_history_holds_what_it_needs(store: Store) -> None:
    _, times = chain(store)
    oplog = StoreOplog(store)
    oplog.hold(times[2])
    assert store.held_through == times[0]
    oplog.hold(times[2] + 7)
    assert store.held_through == times[2] + 7
    assert oplog.now == oplog.last_committed == times[2]
    assert oplog.identity == str(store.set_id)
    assert oplog.truncated_through == 0
    assert list(oplog.stores) == [store]
    assert oplog.have_entries_from(times[0])
    store.oplog_size = store.oplog_bytes * 2
    assert oplog.outgrown == 0.5
