"""Inserts of one command are shown as a run, with the same bytes as single events."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId, Timestamp

from tailrace.bson.documents import encode
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_reader import EntryReader
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.head import HeadLog
from tailrace.log.local_engine import LocalEngine
from tailrace.log.stream import LogStream
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import NO_USER
from tailrace.mongod.store.write_unit import WriteUnit
from tests.events.stages.streams import UUID, command
from tests.log.written_stores import collection_of
from tests.support.oplog_writer import session_id

LSID = session_id(bytes(range(16)), NO_USER)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path, map_size=1 << 26)
    yield opened
    opened.close()


def insert(store: Store, ids: list[Any], *, retryable: bool) -> Timestamp:
    """Insert documents in one job, as one command does; return a start time before them."""

    def work(unit: WriteUnit) -> None:
        collection = collection_of(unit, "shop.orders")
        if retryable:
            unit.open_session(LSID, 1)
        for number, identity in enumerate(ids):
            document = encode({"_id": identity, "n": number})
            unit.insert(collection, document, stmt_id=number if retryable else None)

    start = to_timestamp(store.last_committed + 1)
    store.write_now(work)
    return start


def shown(store: Store, scope: str, spec: dict[str, Any]) -> tuple[list[bytes], bytes, int]:
    """Return the events and the position of a stream on the head, and the number of runs in its entries."""
    head = HeadLog(store)
    runs = sum(head.run_of(item) is not None for item in head.read(0).items)
    stream = LogStream(Plan.open(Scope.parse_ns(scope), spec), head, head.lookups)
    events: list[bytes] = []
    while stream.is_behind:
        events += [row.raw for row in stream.take(300, 1 << 24)]
    return events, stream.position, runs


def shown_by_local_engine(store: Store, scope: str, spec: dict[str, Any]) -> tuple[list[bytes], bytes]:
    engine = LocalEngine(Plan.open(Scope.parse_ns(scope), spec))
    with store.snapshot() as snapshot:
        engine.push("", [entry for _, entry in snapshot.entries()])
    return engine.drain(), engine.post_batch_resume_token


IDS: dict[str, list[Any]] = {
    "numbers": list(range(700)),
    "texts": [f"order-{number}" for number in range(20)],
    "object ids": [ObjectId() for _ in range(20)],
    "uuids": [Binary.from_uuid(uuid.uuid4()) for _ in range(20)],
    "of several types": [1, "1", ObjectId(), 2],
}


@pytest.mark.parametrize("retryable", [False, True])
@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("scope", ["shop.orders", "shop", "shop.other"])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_a_run_shows_the_bytes_of_single_events(
    store: Store, ids: list[Any], scope: str, expanded: bool, retryable: bool
) -> None:
    start = insert(store, ids, retryable=retryable)
    spec = {"startAtOperationTime": start, "showExpandedEvents": expanded}
    events, position, runs = shown(store, scope, spec)
    assert runs == (len(ids) + 499) // 500
    assert (events, position) == shown_by_local_engine(store, scope, spec)
    creation = 1 if expanded and scope != "shop.other" else 0
    assert len(events) == (0 if scope == "shop.other" else len(ids) + creation)


@pytest.mark.parametrize("odd", [-1, 1.5, Int64(2**40), {"a": 1}, None])
def test_ids_that_need_the_general_encoder_are_shown_too(store: Store, odd: Any) -> None:
    start = insert(store, [1, odd, 3], retryable=True)
    spec = {"startAtOperationTime": start}
    events, position, runs = shown(store, "shop.orders", spec)
    assert runs == 1
    assert (events, position) == shown_by_local_engine(store, "shop.orders", spec)
    assert len(events) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"ns": "shop.orderz"},
        {"ui": Binary(bytes(16), 4)},
        {"op": "u"},
        {"o2": {"_id": 2}, "fromMigrate": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_an_entry_with_operations_of_several_kinds_is_no_run(other: dict[str, Any]) -> None:
    first = {"op": "i", "ns": "shop.orders", "ui": UUID, "o": {"_id": 1}, "o2": {"_id": 1}}
    operations = [first, {**first, "o": {"_id": 2}, "o2": {"_id": 2}}, {**first, **other}]
    session = {"lsid": {"id": UUID}, "txnNumber": Int64(1), "multiOpType": 1}
    reader = EntryReader()
    for inserted, is_run in ((operations[:2], True), (operations, False)):
        entry = reader.read(command(1, {"applyOps": inserted}, ns="admin.$cmd", ui=None, **session))
        assert (reader.read_inserts(entry) is not None) == is_run
