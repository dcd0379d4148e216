"""The writer: many jobs in one commit, each all or nothing, and the order of delivery."""

import asyncio
import gc
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.mongod.store.writer import Commit


@pytest.fixture
def collection(store: Store) -> Collection:
    return store.write_now(lambda unit: unit.create_collection("shop", "c"))


def insert(unit: WriteUnit, collection: Collection, identity: Any) -> Any:
    unit.insert(collection, documents.encode({"_id": identity}))
    return identity


def ids(store: Store, collection: Collection) -> list[Any]:
    with store.snapshot() as snapshot:
        return [documents.decode(raw)["_id"] for _, raw in snapshot.records(collection)]


class Gate:
    """A job that blocks the writer until the gate is opened, so that other jobs are queued."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._opened = threading.Event()

    def __call__(self, unit: WriteUnit) -> None:
        self.entered.set()
        self._opened.wait()

    def open(self) -> None:
        self._opened.set()


async def queued_at_a_gate(store: Store, *jobs: Any) -> list[Any]:
    """The results of jobs that were queued while the writer was blocked."""
    store.attach(asyncio.get_running_loop())
    gate = Gate()
    first = asyncio.ensure_future(store.write(gate))
    await asyncio.to_thread(gate.entered.wait)
    tasks = [asyncio.ensure_future(store.write(job)) for job in jobs]
    await asyncio.sleep(0)  # after this every task has queued its job
    gate.open()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_queued_jobs_share_a_commit(store: Store, collection: Collection) -> None:
    commits: list[Commit] = []
    store.on_commit.append(commits.append)
    jobs = [partial(insert, collection=collection, identity=number) for number in range(50)]
    assert asyncio.run(queued_at_a_gate(store, *jobs)) == list(range(50))
    (commit,) = commits
    assert len(commit.entries) == 50
    assert [time for time, _ in commit.entries] == sorted(time for time, _ in commit.entries)
    assert ids(store, collection) == list(range(50))


def test_a_job_that_fails_has_no_effect_on_others(store: Store, collection: Collection) -> None:
    def fails_late(unit: WriteUnit) -> None:
        insert(unit, collection, "never")
        unit.create_collection("shop", "never")
        raise ValueError("on purpose")

    def fails_early(_unit: WriteUnit) -> None:
        raise CommandError(2, "on purpose")

    jobs = [
        lambda unit: insert(unit, collection, 1),
        fails_late,
        lambda unit: insert(unit, collection, 2),
        fails_early,
        lambda unit: insert(unit, collection, 1),
        lambda unit: insert(unit, collection, 3),
    ]
    one, late, two, early, duplicate, three = asyncio.run(queued_at_a_gate(store, *jobs))
    assert (one, two, three) == (1, 2, 3)
    assert isinstance(late, ValueError)
    assert isinstance(early, CommandError)
    assert duplicate.code == 11000
    assert ids(store, collection) == [1, 2, 3]
    assert store.catalog.collection("shop.never") is None
    with store.snapshot() as snapshot:
        assert snapshot.count(collection)[0] == 3
        logged = [documents.decode(entry)["o"] for _, entry in snapshot.entries()]
    assert [o["_id"] for o in logged if "_id" in o] == [1, 2, 3]


def test_listeners_are_called_before_writes_return(store: Store, collection: Collection) -> None:
    order: list[str] = []
    store.on_commit.append(lambda commit: order.append(f"commit {len(commit.entries)}"))

    async def main() -> None:
        store.attach(asyncio.get_running_loop())
        await store.write(lambda unit: insert(unit, collection, 1))
        order.append("writer")

    asyncio.run(main())
    assert order == ["commit 1", "writer"]


def test_the_catalog_is_new_when_a_write_returns(store: Store) -> None:
    made = store.write_now(lambda unit: unit.create_collection("shop", "x"))
    assert store.catalog.collection("shop.x") is made
    with store.snapshot() as snapshot:
        assert snapshot.catalog.collection("shop.x") is made


def test_jobs_of_one_commit_see_each_other(store: Store) -> None:
    def create(unit: WriteUnit) -> Collection:
        return unit.create_collection("shop", "x")

    def use(unit: WriteUnit) -> Any:
        collection = unit.catalog.collection("shop.x")
        assert collection is not None
        return insert(unit, collection, 7)

    created, used = asyncio.run(queued_at_a_gate(store, create, use))
    assert used == 7
    assert ids(store, created) == [7]


def test_a_job_without_changes_commits_nothing(store: Store) -> None:
    commits: list[Commit] = []
    store.on_commit.append(commits.append)
    assert store.write_now(lambda unit: unit.count is not None) is True
    assert commits == []


def test_cancelling_does_not_undo_a_write(store: Store, collection: Collection) -> None:
    async def main() -> None:
        store.attach(asyncio.get_running_loop())
        gate = Gate()
        first = asyncio.ensure_future(store.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        task = asyncio.ensure_future(store.write(lambda unit: insert(unit, collection, 1)))
        await asyncio.sleep(0)
        task.cancel()
        gate.open()
        await first
        await store.write(lambda unit: insert(unit, collection, 2))
        assert task.cancelled()

    asyncio.run(main())
    assert ids(store, collection) == [1, 2]


def test_closing_finishes_queued_jobs_and_refuses_new_ones(tmp_path: Path) -> None:
    store = Store.open(tmp_path, map_size=1 << 30)
    collection = store.write_now(lambda unit: unit.create_collection("shop", "c"))
    gate = Gate()
    done: list[Any] = []
    store.submit(gate, lambda: done.append("gate"))
    gate.entered.wait()
    store.submit(lambda unit: insert(unit, collection, 1), lambda: done.append("insert"))
    gate.open()
    store.close()
    assert done == ["gate", "insert"]
    with pytest.raises(CommandError) as failure:
        store.write_now(lambda unit: None)
    assert failure.value.code == 11600
    again = Store.open(tmp_path, map_size=1 << 30)
    try:
        assert ids(again, collection) == [1]
    finally:
        again.close()


def test_threads_and_tasks_write_concurrently(store: Store, collection: Collection) -> None:
    """Every write has its effect once, and the oplog has them in the order of their times."""

    async def main() -> None:
        store.attach(asyncio.get_running_loop())

        async def client(number: int) -> None:
            for step in range(20):
                await store.write(partial(insert, collection=collection, identity=f"{number}/{step}"))

        await asyncio.gather(*(client(number) for number in range(10)))

    asyncio.run(main())
    found = ids(store, collection)
    assert len(found) == len(set(found)) == 200
    with store.snapshot() as snapshot:
        logged = [documents.decode(entry) for _, entry in snapshot.entries()]
    assert [entry["o"]["_id"] for entry in logged if entry["op"] == "i"] == found


class Written:
    """The result of a job; it refers to all that the job has used."""

    def __init__(self, unit: WriteUnit) -> None:
        self.unit = unit


def test_what_a_job_has_used_is_freed_without_a_garbage_collection(
    store: Store, collection: Collection
) -> None:
    def job(identity: int, unit: WriteUnit) -> Written:
        insert(unit, collection, identity)
        return Written(unit)

    async def write() -> "weakref.ref[Written]":
        store.attach(asyncio.get_running_loop())
        written = weakref.ref(await store.write(partial(job, 1)))
        await store.write(partial(job, 2))  # after this the writer has ended the first one
        return written

    gc.disable()
    try:
        assert asyncio.run(write())() is None
    finally:
        gc.enable()
