"""Streams through `tailrace serve --source` are those of the real server that it reads, byte for byte."""

import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.sources.recorded.via import Via
from tests.laws.busy_writers import DATABASE, writing
from tests.mongod.server.served import served as served_process
from tests.oracle.changes import events_of
from tests.oracle.faults import MEMBERS, ROLLED_BACK, SETTINGS, Faults, majority_end, wait_for_members
from tests.oracle.real_server import RealReplicaSet, missing_mongod, real_replica_set
from tests.oracle.replay.law import Record, difference, recorded
from tests.oracle.replay.real_streams import RealStreams, time_of
from tests.oracle.replay.stream_case import Part, StreamCase
from tests.oracle.replay.test_replay import STREAMS, places
from tests.oracle.replay.written_cases import EXPANDED, IMAGES, SPLIT
from tests.oracle.seeds import SEEDS, some
from tests.spark.pipeline_runs import wait_until
from tests.support.client_workload import COLLECTIONS
from tests.support.fronted import Fronted
from tests.support.streams import token_of

OPERATIONS = 40
WRITTEN = 40
RANDOM_STREAMS = 20
RESUMED = 24
NOT_SERVED = 115
NOT_RECORDED = ("showSystemEvents", "showMigrationEvents", "showRawUpdateDescription")
_SOON = "&connectTimeoutMS=2000&heartbeatFrequencyMS=500&socketTimeoutMS=10000"
"""A frozen member is noticed in seconds."""


@pytest.fixture(scope="module", params=list(Via), ids=lambda via: via.value)
def via(request: pytest.FixtureRequest) -> Via:
    """How the front reads the source."""
    found: Via = request.param
    return found


@pytest.fixture(scope="module")
def front(real_set: RealReplicaSet, via: Via) -> Iterator[Fronted]:
    with real_set.client() as client:
        # A no-op between two readings would move the position of one of them.
        client.admin.command("setParameter", 1, writePeriodicNoops=False)
        with Fronted(real_set.uri, via=via) as found:
            yield found
        client.admin.command("setParameter", 1, writePeriodicNoops=True)


@pytest.fixture(scope="module", params=SEEDS)
def record(
    request: pytest.FixtureRequest,
    real_set: RealReplicaSet,
    front: Fronted,  # its tail delivers the workload, and what it began with is read from the source
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Record]:
    print("seed", request.param)
    with real_set.client() as client:
        yield recorded(client, request.param, tmp_path_factory.mktemp("record"), OPERATIONS)


@pytest.fixture(scope="module")
def served(record: Record, front: Fronted) -> RealStreams:
    return RealStreams(front.client(), record.streams.end)


def compare(real: RealStreams, ours: RealStreams, cases: Sequence[StreamCase], via: Via) -> int:
    """Compare streams, also after their invalidations; returns the number of parts."""
    compared = 0
    for case in cases:
        for opened, part in real.parts(case):
            found = ours.read(opened)
            if via is Via.STREAM and found.error == NOT_SERVED:
                assert is_not_recorded(opened), f"{opened} is refused"
            else:
                check(opened, part, found)
            compared += 1
    return compared


def is_not_recorded(case: StreamCase) -> bool:
    """Whether a stream shows what the source's own stream does not have."""
    names_session = any(field in str(case.pipeline) for field in ("lsid", "txnNumber"))
    return names_session or any(case.options.get(name) for name in NOT_RECORDED)


def check(case: StreamCase, real: Part, ours: Part) -> None:
    found = difference(case, real, (ours.events, ours.error))
    assert found is None, found
    if real.error == ours.error:
        assert real.end == ours.end, case


def test_streams_with_every_option_are_equal(record: Record, served: RealStreams, via: Via) -> None:
    assert compare(record.streams, served, some(record.written(), WRITTEN), via) >= WRITTEN


def test_random_streams_are_equal(record: Record, served: RealStreams, via: Via) -> None:
    cases = record.drawn(RANDOM_STREAMS)
    assert compare(record.streams, served, cases, via) >= RANDOM_STREAMS


def test_tokens_of_either_side_resume_on_the_other(record: Record, served: RealStreams, via: Via) -> None:
    rng = random.Random(record.seed)
    database = record.databases[0]
    resumed: list[StreamCase] = []
    for options, stages in STREAMS:
        for name, collection in ((None, None), (database, None), (database, rng.choice(COLLECTIONS))):
            case = StreamCase(name, collection, {**options, "startAtOperationTime": record.start}, stages)
            for part in (record.streams.read(case), served.read(case)):
                for token in places(part, rng):
                    resumed += [case.starting(resumeAfter=token), case.starting(startAfter=token)]
    chosen = some(resumed, RESUMED)
    assert compare(record.streams, served, chosen, via) >= len(chosen)


@pytest.mark.slow
def test_large_events_come_in_pieces_and_are_served_as_on_the_source(
    real_set: RealReplicaSet, front: Fronted, tmp_path: Path
) -> None:
    with real_set.client() as client:
        record = recorded(client, 0, tmp_path, 0, large=9 << 20)
        ours = RealStreams(front.client(), record.streams.end)
        cases = [
            StreamCase(
                record.databases[0], "large", {**options, "startAtOperationTime": record.start}, stages
            )
            for options in ({}, IMAGES, {**EXPANDED, **IMAGES})
            for stages in ([], [SPLIT])
        ]
        for case in cases:
            check(case, record.streams.read(case), ours.read(case))
        assert len(record.streams.read(cases[3]).events) > len(record.streams.read(cases[1]).events)


# -- what the source has forgotten --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", list(Via), ids=lambda way: way.value)
def test_a_stream_resumes_where_the_oplog_of_the_source_was_turned_over(
    java: None, tmp_path: Path, way: Via
) -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    with real_replica_set(tmp_path / "set", "--oplogSize", "1") as real, real.client() as client:
        start = majority_end(real)
        client.shop.orders.insert_many([{"_id": number} for number in range(100)])
        client.shop.orders.update_many({}, {"$set": {"seen": True}})
        case = StreamCase("shop", "orders", {"startAtOperationTime": start})
        expected = RealStreams(client, majority_end(real)).read(case)
        assert len(expected.events) == 200
        token = token_of(expected.events[20])
        options = ("--source", real.uri, "--via", way.value, "--history", str(tmp_path / "history"))
        with (
            served_process(tmp_path, *options, spark=True) as process,
            process.client() as front,
        ):
            _wait_for_history(front, majority_end(real))
            while _oldest(client) <= time_of(token_of(expected.events[-1])):
                for _ in range(8):
                    client.other.filling.insert_one({"text": "x" * (1 << 20)})
                _wait_for_history(front, majority_end(real))
            resumed = case.starting(resumeAfter=token)
            end = majority_end(real)
            assert RealStreams(client, end).read(resumed).error == 286
            assert RealStreams(front, end).read(resumed).events == expected.events[21:]
            with front.shop.orders.watch(resume_after=token) as stream:
                client.shop.orders.insert_one({"_id": "new"})
                assert [next(stream) for _ in range(180)][-1]["documentKey"] == {"_id": "new"}


def _oldest(client: "MongoClient[Any]") -> Timestamp:
    entry = client.local["oplog.rs"].find_one(sort=[("$natural", 1)])
    assert entry is not None
    time: Timestamp = entry["ts"]
    return time


def _wait_for_history(front: "MongoClient[Any]", time: Timestamp) -> None:
    def holds() -> bool:
        history = front.admin.command("serverStatus")["history"]
        return bool(history["exists"] and history["through"] >= time)

    wait_until(holds)


# -- faults of the source -----------------------------------------------------------------------------------


class Reading(threading.Thread):
    """Reads a stream on a database through a driver until it has seen an event after a time."""

    def __init__(self, client: "MongoClient[Any]", start: Timestamp) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._start = start
        self._end: Timestamp | None = None
        self.events: list[dict[str, Any]] = []

    def run(self) -> None:
        with self._client[DATABASE].watch(
            full_document="updateLookup", start_at_operation_time=self._start, max_await_time_ms=200
        ) as stream:
            while self._end is None or _time(stream.resume_token) < self._end:
                event = stream.try_next()
                if event is not None:
                    self.events.append(event)

    def end(self, time: Timestamp) -> list[dict[str, Any]]:
        self._end = time
        self.join(120)
        assert not self.is_alive()
        return self.events


def _time(token: Any) -> Timestamp:
    data = token["_data"]
    return Timestamp(int(data[2:10], 16), int(data[10:18], 16))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", list(Via), ids=lambda way: way.value)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_majority_committed_change_once_through_elections_and_rollbacks(
    tmp_path: Path, seed: int, way: Via
) -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    print("seed", seed)
    three = RealReplicaSet(tmp_path, members=MEMBERS)
    try:
        three.start(SETTINGS)
        wait_for_members(three)
        faults = Faults(three, tmp_path, seed)
        start = majority_end(three)
        with Fronted(three.uri + _SOON, via=way) as front:
            reading = Reading(front.client(), start)
            reading.start()
            with writing(three, seed):
                for fault in (
                    faults.step_down,
                    faults.kill_primary,
                    faults.freeze_primary,
                    faults.roll_back,
                ):
                    fault()
                    wait_for_members(three)
            end = majority_end(three)
            seen = reading.end(end)
            with three.client() as client:
                expected = events_of(client, DATABASE, start, end)
        assert faults.rolled_back
        assert all(event["ns"].get("coll") != ROLLED_BACK for event in seen)
        assert len(expected) > MEMBERS
        assert [event["_id"] for event in seen] == [event["_id"] for event in expected]
    finally:
        three.stop()
