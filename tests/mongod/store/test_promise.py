"""`Store.promised`: entries delivered later have later cluster times."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.errors import CommandError
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store, no_op
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.mongod.store.writer import Commit


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    clock = ClusterClock(WallClock())
    opened = [Store.open(tmp_path / name, clock=clock, map_size=1 << 26) for name in ("first", "second")]
    yield opened[0], opened[1]
    for store in opened:
        store.close()


def log(unit: WriteUnit) -> int:
    return unit.log(no_op({"msg": "test"}))


def test_stores_that_share_a_clock_write_oplogs_in_one_order(stores: tuple[Store, Store]) -> None:
    first, second = stores
    times = [store.write_now(log) for _ in range(5) for store in (first, second)]
    assert times == sorted(set(times))


def test_a_shared_clock_continues_after_the_entries_of_a_store(tmp_path: Path) -> None:
    wall = WallClock()
    wall.advance(10 * 366 * 86400)
    with_old_clock = Store.open(tmp_path, wall=wall, map_size=1 << 26)
    last = with_old_clock.write_now(log)
    with_old_clock.close()
    clock = ClusterClock(WallClock())
    store = Store.open(tmp_path, clock=clock, map_size=1 << 26)
    store.close()
    assert clock.now > last


def test_the_promise_of_an_idle_store_advances_with_the_others(stores: tuple[Store, Store]) -> None:
    busy, idle = stores
    for _ in range(3):
        time = busy.write_now(log)
        assert idle.promised >= time
        assert busy.promised >= time


def test_the_promise_does_not_pass_a_pending_commit(stores: tuple[Store, Store]) -> None:
    writing, other = stores
    entered, may_go_on = threading.Event(), threading.Event()

    def slowly(unit: WriteUnit) -> int:
        time = log(unit)
        entered.set()
        may_go_on.wait()
        return time

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        for store in stores:
            store.attach(loop)
        commit = loop.create_task(writing.write(slowly))
        await asyncio.to_thread(entered.wait)
        later = await other.write(log)
        assert other.promised >= later
        before = writing.promised
        assert before < later
        may_go_on.set()
        mine = await commit
        assert before < mine < later
        assert writing.promised >= later

    asyncio.run(scenario())


def test_entries_are_delivered_before_the_promise_passes_them(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    announced: list[int] = []
    faults: list[int] = []

    def accept(commit: Commit) -> None:
        for time, _ in commit.entries:
            if store.promised >= time:
                faults.append(time)
            announced.append(time)

    async def scenario() -> list[int]:
        store.attach(asyncio.get_running_loop())
        store.on_commit.append(accept)
        times = []
        for _ in range(20):
            times += await asyncio.gather(*(store.write(log) for _ in range(5)))
            assert store.promised >= times[-1]
        return times

    times = asyncio.run(scenario())
    assert announced == times
    assert not faults


@pytest.mark.parametrize("others", [0, 2])
def test_jobs_that_fail_or_change_nothing_release_the_promise(
    stores: tuple[Store, Store], others: int
) -> None:
    failing, other = stores
    entered, may_go_on = threading.Event(), threading.Event()

    def fail(unit: WriteUnit) -> None:
        entered.set()
        may_go_on.wait()
        log(unit)
        raise CommandError(1, "not today")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        for store in stores:
            store.attach(loop)
        settled: list[int] = []
        gate, gate_entered = threading.Event(), threading.Event()

        def hold(_unit: WriteUnit) -> None:
            gate_entered.set()
            gate.wait()

        gated = loop.create_task(failing.write(hold))
        await asyncio.to_thread(gate_entered.wait)
        jobs = [loop.create_task(failing.write(work)) for work in (fail, *[lambda _: None] * others)]
        await asyncio.sleep(0)
        gate.set()
        await gated
        await asyncio.to_thread(entered.wait)
        later = await other.write(log)
        assert failing.promised < later
        failing.on_settled.append(lambda: settled.append(failing.promised))
        may_go_on.set()
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        assert isinstance(outcomes[0], CommandError)
        assert settled[-1] >= later
        assert failing.promised >= later

    asyncio.run(scenario())
