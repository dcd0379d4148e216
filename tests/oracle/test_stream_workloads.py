"""Streams over random histories, beside the real server: three scopes, every option, random pipelines.

A seeded workload runs on the real server; the commands that it sent are sent to ours. Then the same streams
are read on both, event by event, from the beginning and after each invalidation.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.bson.documents import decode, encode
from tailrace.testing.replica_set import ReplicaSet
from tests.oracle.comparison import value_differences
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.recorded import Recorder
from tests.oracle.replay.random_cases import CaseMaker
from tests.oracle.replay.real_streams import RealStreams
from tests.oracle.replay.stream_case import Document, StreamCase
from tests.oracle.replay.workload import RealWorkload
from tests.oracle.replay.written_cases import written_cases
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import RELEASE, Side

OPERATIONS: Final = 150
RANDOM_CASES: Final = 60
LEFT_OUT: Final = ("drop_database", "merge", "out", "time_series", "write_series")
"""What depends on the order of records or of collections, and buckets, whose ids a server makes up."""
OF_ONE_SERVER: Final = ("_id", "clusterTime", "wallTime", "collectionUUID")
"""Fields whose values differ between servers, so that no condition may name them."""
SHOWS_TIME: Final = (
    "$tsSecond", "$convert", "'$_id", "'collectionUUID': {'$bits", "'tmp", "$split", "$replaceAll",
    "$regexFind", "$toString", "'dropTarget'", "$bits",
)  # fmt: skip
"""What shows a time, a token, a random UUID or a random name so that it cannot be masked."""


@dataclass
class History:
    """The same operations on both servers."""

    seed: int
    databases: list[str]
    real: RealStreams
    ours: RealStreams
    began: tuple[Timestamp, Timestamp]
    refused: list[str]
    """Commands with another outcome on our server."""

    def differences(self, case: StreamCase) -> Iterator[str]:
        """Read a stream on both servers, and yield where they differ."""
        if "startAtOperationTime" not in case.options:
            raise ValueError("a stream of a history begins with it")
        real, ours = (case.starting(startAtOperationTime=time) for time in self.began)
        for (at, one), (_, other) in zip(self.real.parts(real), self.ours.parts(ours), strict=False):
            fails_elsewhere = one.error != other.error and case.may_fail_on_entries
            if (one.error, len(one.events)) != (other.error, len(other.events)) and not fails_elsewhere:
                yield (
                    f"{at}: {len(one.events)} events, error {one.error}; "
                    f"ours {len(other.events)} events, error {other.error}"
                )
            for number, (event, same) in enumerate(zip(one.events, other.events, strict=False)):
                found = next(value_differences("", decode(event), decode(same)), None)
                if found is not None:
                    yield f"{at} event {number}: {found}\n    {decode(event)}"
                    break


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"seed{seed}")
def history(request: pytest.FixtureRequest, real_set: RealReplicaSet) -> Iterator[History]:
    seed: int = request.param
    recorder = Recorder()
    uri = f"{real_set.members[0].address}/?directConnection=true"
    with (
        client_of(f"mongodb://{uri}") as real,
        client_of(f"mongodb://{uri}", event_listeners=[recorder]) as driven,
        ReplicaSet(server_version=RELEASE) as server,
        client_of(server.uri) as ours,
    ):
        clients = (real, ours)
        for client in clients:
            client.admin.command({"setParameter": 1, "writePeriodicNoops": False})
            for name in client.list_database_names():
                if name.startswith("w"):
                    client.drop_database(name)
            client.begun.c.insert_one({})
        began = [after(client.admin.command("ping")["operationTime"]) for client in clients]
        for client in clients:
            client.begun.c.insert_one({})
        workload = RealWorkload(driven, seed, "w", without=LEFT_OUT, repeatable=True)
        workload.everything(OPERATIONS)
        side = Side(("127.0.0.1", server.server.port))
        refused = recorder.send(side)
        side.close()
        streams = [RealStreams(client, client.admin.command("ping")["operationTime"]) for client in clients]
        yield History(
            seed,
            workload.databases,
            streams[0],
            streams[1],
            (began[0], began[1]),
            [f"{str(command)[:300]}\n  real {real}\n  ours {ours}" for command, real, ours in refused],
        )
        real.admin.command({"setParameter": 1, "writePeriodicNoops": True})


def client_of(uri: str, **options: Any) -> MongoClient[Document]:
    return MongoClient(uri, **options)


def after(time: Timestamp) -> Timestamp:
    return Timestamp(time.time, time.inc + 1)


def test_the_same_operations_succeed(history: History) -> None:
    assert not history.refused, "\n".join(history.refused)


def test_every_option_and_many_pipelines(history: History) -> None:
    cases = written_cases(history.began[0], history.databases, random.Random(history.seed))
    found = [line for case in cases for line in history.differences(case)]
    assert not found, f"seed {history.seed}, {len(found)} differences\n" + "\n".join(found[:40])


def test_random_streams(history: History) -> None:
    everything = StreamCase(options={"startAtOperationTime": history.began[0], "showExpandedEvents": True})
    events = [without_times(event) for event in history.real.read(everything).events]
    maker = CaseMaker(random.Random(history.seed), history.began[0], history.databases, events)
    cases = [case for case in (maker.make() for _ in range(RANDOM_CASES)) if not shows_time(case)]
    found = [line for case in cases for line in history.differences(case)]
    assert not found, f"seed {history.seed}, {len(found)} differences\n" + "\n".join(found[:40])


def without_times(event: bytes) -> bytes:
    shown: Document = decode(event)
    return encode({name: value for name, value in shown.items() if name not in OF_ONE_SERVER})


def shows_time(case: StreamCase) -> bool:
    return any(name in str(case.pipeline) for name in SHOWS_TIME)
