"""The merged log: several stores with one clock, one order of events, no event missed, no needless waits."""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.log.head import HeadLog
from tailrace.log.local_engine import LocalEngine
from tailrace.log.merged_log import MergedLog
from tailrace.log.stream import LogStream
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.testing.in_thread import memory_folder
from tests.laws.law_seeds import BASE_SEED
from tests.laws.restored_stores import restore, restored_store
from tests.log.written_stores import collection_of, ids
from tests.support.choices import any_stream
from tests.support.history import History, timestamp_of
from tests.support.seeds import check_histories, history_of
from tests.support.streams import Stream

FOREVER = 60.0
NS = "shop.orders"
WITHOUT_IMAGES = {"fullDocument": "default", "fullDocumentBeforeChange": "off"}


def nothing(_ns: str, _key: bytes, _uuid: bytes | None) -> None:
    return None


class Cluster:
    """Stores with one clock, in one event loop, and their merged log."""

    def __init__(self, path: Path, shards: int) -> None:
        self._path = path
        self.clock = ClusterClock(WallClock())
        self.log = MergedLog(self.clock, nothing)
        self.stores: dict[str, Store] = {}
        self.heads: dict[str, HeadLog] = {}
        for number in range(shards):
            self.open(f"shard{number}")
            self.log.add(self.heads[f"shard{number}"], self.stores[f"shard{number}"])

    def open(self, name: str) -> None:
        """Open a shard that is not part of the cluster yet."""
        store = Store.open(self._path / name, clock=self.clock, map_size=1 << 26)
        store.attach(asyncio.get_running_loop())
        self.stores[name] = store
        self.heads[name] = HeadLog(store, shard=name)

    def join(self, name: str) -> None:
        self.log.add(self.heads[name], self.stores[name], joins_now=True)

    def stream(self, spec: dict[str, Any] | None = None, ns: str = NS) -> LogStream:
        return LogStream(Plan.open(Scope.parse_ns(ns), spec or {}), self.log, self.log.lookups)

    async def insert(self, shard: str, *identities: Any) -> int:
        """Insert documents on a shard; return the cluster time of the last."""
        store = self.stores[shard]
        await store.write(lambda unit: put(unit, *identities))
        return store.last_committed

    @asynccontextmanager
    async def busy(self, shard: str, work: Callable[[WriteUnit], Any]) -> AsyncIterator[Awaitable[Any]]:
        """Hold a shard in the middle of a commit until the block ends."""
        entered, released = threading.Event(), threading.Event()

        def slowly(unit: WriteUnit) -> Any:
            entered.set()
            released.wait()
            return work(unit)

        writing = asyncio.ensure_future(self.stores[shard].write(slowly))
        await asyncio.to_thread(entered.wait)
        try:
            yield writing
        finally:
            released.set()


def put(unit: WriteUnit, *identities: Any) -> None:
    collection = collection_of(unit, NS)
    for identity in identities:
        unit.insert(collection, encode({"_id": identity}))


def run(path: Path, shards: int, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run a scenario on a cluster whose shards already have the collection."""

    async def main() -> None:
        cluster = Cluster(path, shards)
        try:
            for shard in cluster.stores:
                await cluster.insert(shard, f"first of {shard}")
            await scenario(cluster)
        finally:
            for store in cluster.stores.values():
                store.close()

    asyncio.run(asyncio.wait_for(main(), FOREVER))


async def next_ids(stream: LogStream) -> list[Any]:
    """Return the ids that a stream has, or wait for the next ones, as getMore does."""
    while True:
        found = ids(stream) if stream.has_news else []
        if found:
            return found
        assert await stream.wait(FOREVER)


# -- order and waiting ------------------------------------------------------------------------------------


def test_events_of_all_shards_are_shown_in_the_order_they_happened(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        for number in range(30):
            await cluster.insert(f"shard{number * 7 % 3}", number)
        assert ids(stream) == list(range(30))

    run(tmp_path, 3, scenario)


def test_an_idle_shard_does_not_delay_a_stream(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        await cluster.insert("shard0", 1)
        assert not stream.must_fetch
        assert ids(stream) == [1]

    run(tmp_path, 5, scenario)


def test_a_stream_waits_for_a_shard_that_is_writing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        async with cluster.busy("shard0", lambda unit: put(unit, "early")) as writing:
            waiting = asyncio.ensure_future(next_ids(stream))
            await cluster.insert("shard1", "later")
            assert not waiting.done()
            assert not stream.is_behind
        await writing
        # The delayed write took its cluster time when it continued, after the other one.
        assert await waiting == ["later", "early"]

    run(tmp_path, 2, scenario)


def test_a_write_that_took_its_cluster_time_earlier_is_shown_earlier(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        logged, released = threading.Event(), threading.Event()

        def early(unit: WriteUnit) -> None:
            put(unit, "early")
            unit.end_group()
            logged.set()
            released.wait()

        writing = asyncio.ensure_future(cluster.stores["shard0"].write(early))
        await asyncio.to_thread(logged.wait)
        waiting = asyncio.ensure_future(next_ids(stream))
        await cluster.insert("shard1", "later")
        assert not waiting.done()
        released.set()
        await writing
        assert await waiting == ["early", "later"]

    run(tmp_path, 2, scenario)


def fail(_unit: WriteUnit) -> None:
    raise CommandError(1, "not today")


def fail_late(unit: WriteUnit) -> None:
    put(unit, "never")
    fail(unit)


@pytest.mark.parametrize("work", [fail, fail_late, lambda _: None])
def test_streams_wake_when_the_shard_they_wait_for_writes_no_entry(
    tmp_path: Path, work: Callable[[WriteUnit], None]
) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        async with cluster.busy("shard0", work) as writing:
            waiting = asyncio.ensure_future(next_ids(stream))
            await cluster.insert("shard1", "later")
            assert not waiting.done()
        assert await waiting == ["later"]
        await asyncio.wait([asyncio.ensure_future(writing)])

    run(tmp_path, 2, scenario)


def test_events_delayed_during_a_wait_are_shown_after_its_timeout(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        async with cluster.busy("shard0", lambda _: None) as writing:
            await cluster.insert("shard1", "later")
            assert not await stream.wait(0.01)
        await writing
        assert ids(stream) == ["later"]

    run(tmp_path, 2, scenario)


def test_a_new_stream_does_not_show_writes_acknowledged_before_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with cluster.busy("shard0", lambda _: None) as writing:
            await cluster.insert("shard1", "before")
            stream = cluster.stream()
            await cluster.insert("shard1", "after")
        await writing
        assert await next_ids(stream) == ["after"]

    run(tmp_path, 2, scenario)


def test_an_entry_wakes_only_streams_that_show_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        streams = [cluster.stream(ns=ns) for ns in (NS, "shop", "shop.items", "other")]
        waits = [asyncio.ensure_future(stream.wait(FOREVER)) for stream in streams]
        await asyncio.sleep(0)
        await cluster.insert("shard1", 1)
        assert all(await asyncio.gather(*waits[:2]))
        assert [wait.done() for wait in waits[2:]] == [False, False]
        for wait in waits[2:]:
            wait.cancel()

    run(tmp_path, 2, scenario)


def test_an_entry_is_transformed_once_and_inserts_are_shown_as_runs(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        streams = [cluster.stream() for _ in range(3)]
        await cluster.insert("shard0", *range(10))
        await cluster.insert("shard1", *range(10, 20))
        assert [ids(stream) for stream in streams] == [list(range(20))] * 3
        assert [head.transformed for head in cluster.heads.values()] == [0, 0]
        with_lookups = [cluster.stream({"fullDocument": "updateLookup"}) for _ in range(2)]
        await cluster.insert("shard0", "a")
        await cluster.insert("shard1", "b")
        assert [ids(stream) for stream in (*streams, *with_lookups)] == [["a", "b"]] * 5
        assert [head.transformed for head in cluster.heads.values()] == [1, 1]

    run(tmp_path, 2, scenario)


# -- shards that join and leave -----------------------------------------------------------------------------


def test_a_shard_that_joins_is_shown_since_then(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        start = to_timestamp(await cluster.insert("shard0", 1))
        stream = cluster.stream()
        cluster.open("new")
        await cluster.insert("new", "its own past")
        cluster.join("new")
        waiting = asyncio.ensure_future(next_ids(stream))
        await asyncio.sleep(0)
        await cluster.insert("new", 2)
        assert await waiting == [2]
        await cluster.insert("shard0", 3)
        assert ids(stream) == [3]
        assert ids(cluster.stream({"startAtOperationTime": start})) == [1, 2, 3]

    run(tmp_path, 2, scenario)


def test_a_shard_that_leaves_is_shown_until_then(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        start = to_timestamp(cluster.log.newest)
        stream = cluster.stream()
        for number in range(4):
            await cluster.insert(f"shard{number % 2}", number)
        cluster.log.remove("shard1")
        after = to_timestamp(await cluster.insert("shard0", 4))
        await cluster.insert("shard1", "nobody's business")
        await cluster.insert("shard0", 5)
        assert ids(stream) == [0, 1, 2, 3, 4, 5]
        with pytest.raises(CommandError) as raised:
            ids(cluster.stream({"startAtOperationTime": start}))
        assert raised.value.code == 286
        assert ids(cluster.stream({"startAtOperationTime": after})) == [4, 5]

    run(tmp_path, 2, scenario)


def test_a_stream_stops_waiting_for_a_shard_that_leaves(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        async with cluster.busy("shard1", lambda _: None) as writing:
            waiting = asyncio.ensure_future(next_ids(stream))
            await cluster.insert("shard0", 1)
            assert not waiting.done()
            cluster.log.remove("shard1")
            assert await waiting == [1]
        await writing

    run(tmp_path, 2, scenario)


def test_a_shard_that_joins_again_is_shown_without_the_time_between(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stream = cluster.stream()
        await cluster.insert("shard1", 1)
        cluster.log.remove("shard1")
        await cluster.insert("shard1", "away")
        await cluster.insert("shard0", 2)
        cluster.join("shard1")
        await cluster.insert("shard1", 3)
        assert ids(stream) == [1, 2, 3]

    run(tmp_path, 2, scenario)


def test_a_shard_that_left_earlier_is_read_while_it_is_there(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.open("old")
        left = await cluster.insert("old", "old")
        await cluster.insert("old", "after it left")
        later = to_timestamp(await cluster.insert("shard0", 1))
        cluster.log.add_former(cluster.heads["old"], cluster.stores["old"], left)
        assert cluster.log.shards == {"shard0"}
        assert {id(store) for store in cluster.log.stores} == {id(store) for store in cluster.stores.values()}
        # Streams that were opened before go on; a new one cannot start before the shard left.
        assert cluster.log.read(left - 1).items[0].ts == left
        with pytest.raises(CommandError):
            cluster.log.check_start(left)
        cluster.log.check_start(left + 1)
        assert ids(cluster.stream({"startAtOperationTime": later})) == [1]
        # What is lost for good counts as well, whatever is lost later or earlier.
        cluster.log.lose(left + 5)
        cluster.log.lose(left - 5)
        assert cluster.log.lost_through == left + 5
        with pytest.raises(CommandError):
            cluster.log.check_start(left + 5)
        with pytest.raises(CommandError) as raised:
            cluster.log.check_place(left + 4)
        assert raised.value.code == 136
        cluster.log.check_place(left + 5)

    run(tmp_path, 1, scenario)


# -- truncated oplogs -------------------------------------------------------------------------------------


def test_a_position_that_one_shard_has_truncated_is_lost(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        start = to_timestamp(cluster.log.newest)
        stream = cluster.stream()
        for number in range(3):
            await cluster.insert("shard1", number)
        store = cluster.stores["shard1"]
        await store.write(store.truncate_oplog(store.last_committed))
        with pytest.raises(CommandError) as open_stream:
            ids(stream)
        assert open_stream.value.code == 136
        with pytest.raises(CommandError) as new_stream:
            ids(cluster.stream({"startAtOperationTime": start}))
        assert new_stream.value.code == 286
        later = cluster.stream({"startAtOperationTime": to_timestamp(await cluster.insert("shard0", 3))})
        assert ids(later) == [3]

    run(tmp_path, 2, scenario)


# -- concurrency ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + 6))
def test_concurrent_changes_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    """Writers on all shards, jobs that fail, shards that join and leave, streams that open and wait."""
    rng = random.Random(seed)

    async def writer(cluster: Cluster, shard: str) -> None:
        for number in range(30):
            kind = rng.randrange(5)
            if kind == 0:
                with pytest.raises(CommandError):
                    await cluster.stores[shard].write(rng.choice((fail, fail_late)))
            elif kind == 1:
                await asyncio.sleep(0)
            else:
                identities = [f"{shard}.{number}.{place}" for place in range(rng.randrange(1, 4))]
                await cluster.insert(shard, *identities)

    async def reader(stream: LogStream, seen: list[Any], marks: list[int]) -> None:
        while True:
            seen += await next_ids(stream)
            marks.append(ResumeToken.parse(stream.position).cluster_time)
            if "the end" in seen:
                return

    async def scenario(cluster: Cluster) -> None:
        streams = [cluster.stream() for _ in range(3)]
        seen: list[list[Any]] = [[] for _ in streams]
        marks: list[list[int]] = [[] for _ in streams]
        readers = [asyncio.ensure_future(reader(*parts)) for parts in zip(streams, seen, marks, strict=True)]
        writers = [writer(cluster, shard) for shard in list(cluster.stores)]
        for name in ("new0", "new1"):
            cluster.open(name)
            cluster.join(name)
            writers.append(writer(cluster, name))
        await asyncio.gather(*writers)
        cluster.log.remove("new0")
        await cluster.insert("shard0", "the end")
        await asyncio.gather(*readers)
        expected = []
        for store in cluster.stores.values():
            with store.snapshot() as snapshot:
                expected += [raw for _, raw in snapshot.entries()]
        order = logged_ids(sorted(expected, key=lambda raw: decode(raw)["ts"]))
        assert seen[0] == [identity for identity in order if not str(identity).startswith("first")]
        assert seen[1:] == [seen[0]] * 2
        assert all(found == sorted(found) for found in marks)

    run(tmp_path, rng.randrange(1, 5), scenario)


def logged_ids(entries: Sequence[bytes]) -> list[Any]:
    found = []
    for raw in entries:
        entry = decode(raw)
        operations = entry["o"].get("applyOps", [entry])
        found += [operation["o"]["_id"] for operation in operations if operation["op"] == "i"]
    return found


# -- the law ----------------------------------------------------------------------------------------------


def show(
    stream: Stream, logs: Sequence[Sequence[bytes]], lookups: Mapping[str, Lookups], rng: random.Random
) -> list[bytes]:
    """Return what a stream shows of the logs of some shards, read in batches of random size."""
    last = max(timestamp_of(log[-1]) for log in logs)
    with TemporaryDirectory(dir=memory_folder()) as folder, ExitStack() as stack:
        merged = MergedLog(ClusterClock(WallClock()), nothing)
        for number, log in enumerate(logs):
            store = stack.enter_context(restored_store(f"{folder}/{number}"))
            cut = rng.randrange(len(log) + 1)
            restore(store, log[:cut])
            head = HeadLog(store, shard=f"shard{number}")
            store.clock.continue_after(last)
            restore(store, log[cut:])
            merged.add(head, store)
        plan = Plan.open(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
        shown = LogStream(plan, merged, lookups)
        events: list[bytes] = []
        while shown.is_behind and not shown.is_done:
            rows = shown.take(rng.choice((1, 2, 5, 1000)), rng.choice((1, 500, 1 << 24)))
            events += [row.raw for row in rows]
        return events


def split_over_shards(history: History) -> None:
    """A history split over several shards shows the same events as the whole."""
    rng = random.Random(history.seed)
    logs = history.split(rng.choice((1, 2, 5)), history.seed)
    lookups = history.lookups()
    stream = any_stream(history, rng)
    assert show(stream, logs, defaultdict(lambda: lookups), rng) == stream.events()


def test_the_merged_log_shows_the_events_of_the_unsplit_log() -> None:
    check_histories(range(BASE_SEED, BASE_SEED + 50), split_over_shards)


def with_ties(tied: set[int], history: History) -> None:
    """Independent histories share some cluster times; their events are in the order of tokens."""
    rng = random.Random(history.seed)
    other = history_of(history.seed + 1)
    lookups = {"shard0": Lookups(history.entry), "shard1": Lookups(other.entry)}
    stream = any_stream(history, rng)
    stream = replace(stream, spec={**stream.spec, **WITHOUT_IMAGES})
    engine = LocalEngine(Plan.open(stream.scope, stream.spec, raw_data=stream.raw_data), lookups)
    for name, log in (("shard0", history.entries), ("shard1", other.entries)):
        engine.push(name, log)
        engine.finish(name)
    tied.update(set(history.timestamps[1:]).intersection(other.timestamps[1:]))
    assert show(stream, [history.entries, other.entries], lookups, rng) == engine.drain()


def test_events_of_the_same_cluster_time_are_in_the_order_of_tokens() -> None:
    tied: set[int] = set()
    check_histories(range(BASE_SEED, BASE_SEED + 30), partial(with_ties, tied))
    assert len(tied) > 30
