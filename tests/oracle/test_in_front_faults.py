"""`tailrace serve --source` before three real members: faults of the source, and kills of every part.

`TAILRACE_ROUNDS` is the number of kills in the long run.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.lake.table import HistoryTable
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tests.laws.busy_writers import DATABASE, writing
from tests.mongod.server.served import ServedProcess
from tests.oracle.changes import tokens_of
from tests.oracle.faults import MEMBERS, SETTINGS, Faults, majority_end, wait_for_members
from tests.oracle.real_server import RealReplicaSet, missing_mongod, real_replica_set
from tests.oracle.replay.law import difference, recorded
from tests.oracle.replay.real_streams import ON_A_VIEW, RealStreams, time_of
from tests.oracle.seeds import SEEDS
from tests.spark.pipeline_runs import wait_until
from tests.support.fronted import Fronted

Document = dict[str, Any]
ROUNDS: Final = int(os.environ.get("TAILRACE_ROUNDS", "10"))
_SOON: Final = "&connectTimeoutMS=2000&heartbeatFrequencyMS=500&socketTimeoutMS=10000"
WRITTEN, DRAWN = 30, 20
OPERATIONS = 20
OPLOG_MEGABYTES = 16


@pytest.fixture(autouse=True)
def mongod() -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)


# -- streams of every shape ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS[:2])  # minutes each
def test_fifty_streams_are_those_of_the_deployment_also_when_its_oplog_was_turned_over(
    tmp_path: Path, seed: int
) -> None:
    print("seed", seed)
    three = RealReplicaSet(tmp_path, "--oplogSize", str(OPLOG_MEGABYTES), members=MEMBERS)
    history = tmp_path / "history"
    try:
        three.start(SETTINGS)
        wait_for_members(three)
        faults = Faults(three, tmp_path, seed)
        with Fronted(three.uri + _SOON, history=history) as front, three.client() as client:
            with writing(three, seed):
                faults.step_down()
                faults.roll_back()
                wait_for_members(three)
                record = recorded(client, seed, tmp_path / "record", OPERATIONS)
                faults.kill_primary()
            wait_for_members(three)
            end = majority_end(three)
            real, ours = RealStreams(client, end), RealStreams(front.client(), end)
            cases = [*random.Random(seed).sample(record.written(), WRITTEN), *record.drawn(DRAWN)]
            expected = [(case, real.read(case)) for case in cases]
            for case, part in expected:
                found = ours.read(case)
                assert difference(case, part, (found.events, found.error)) is None, case
            assert sum(len(part.events) for _, part in expected) > WRITTEN * OPERATIONS

            with DeploymentSource(three.uri) as read:
                _turn_over(client, end, HistoryBuilder(read, history))
            served = front.server.history
            assert served is not None
            front.call(served.look())
            refused = 0
            for case, part in expected:
                refused += real.read(case).error == 286
                found = ours.read(case)
                assert difference(case, part, (found.events, found.error)) is None, case
            views = sum(part.error == ON_A_VIEW for _, part in expected)
            assert refused > 0.8 * len(cases) - views
        assert faults.rolled_back
    finally:
        three.stop()


def _turn_over(client: "MongoClient[Any]", time: Timestamp, builder: HistoryBuilder) -> None:
    """Write until the oplog begins after a time; the history follows."""
    while True:
        builder.build()
        oldest = client.local["oplog.rs"].find_one(sort=[("$natural", 1)])
        assert oldest is not None
        if oldest["ts"] > time:
            return
        for _ in range(8):
            client.other.filling.insert_one({"text": "x" * (1 << 20)})


# -- kills --------------------------------------------------------------------------------------------------


class Consumer(threading.Thread):
    """Reads a database's stream, and resumes with the last token whatever fails."""

    def __init__(self, connect: Callable[[], "MongoClient[Any]"], start: Timestamp) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._place: Document = {"start_at_operation_time": start}
        self._end: Timestamp | None = None
        self.error: BaseException | None = None
        self.tokens: list[str] = []

    def run(self) -> None:
        while not self._is_done:
            try:
                with self._connect() as client:
                    self._read(client)
            except OperationFailure as error:
                if not error.has_error_label("ResumableChangeStreamError"):
                    self.error = error
                    return
            except PyMongoError:
                pass  # the server was killed

    def _read(self, client: "MongoClient[Any]") -> None:
        with client[DATABASE].watch(
            full_document="updateLookup", max_await_time_ms=200, **self._place
        ) as stream:
            while not self._is_done:
                event = stream.try_next()
                if event is not None:
                    self.tokens.append(event["_id"]["_data"])
                if stream.resume_token is not None:
                    self._place = {"resume_after": dict(stream.resume_token)}

    @property
    def _is_done(self) -> bool:
        token = self._place.get("resume_after")
        return self._end is not None and token is not None and time_of(token) >= self._end

    def end(self, time: Timestamp) -> list[str]:
        self._end = time
        self.join(240)
        assert not self.is_alive()
        assert self.error is None, self.error
        return self.tokens


class PipelineProcess:
    """`tailrace pipeline`, which can be killed and started again."""

    def __init__(self, folder: Path, source: str, history: Path) -> None:
        self._command = [sys.executable, "-m", "tailrace", "pipeline", "--master", "local[1]"]
        self._command += ["--source", source, "--history", str(history)]
        self._history = history
        self._log = folder / "pipeline.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._found = 0

    @property
    def _through(self) -> int:
        return HistoryTable.open(self._history).through if HistoryTable.exists(self._history) else 0

    def wait_for_commit(self) -> None:
        """Wait until it has added something to the history since it was started."""
        wait_until(lambda: self._through > self._found)

    def start(self) -> None:
        self._found = self._through
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill it with its Java machine."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def run_rounds(
    three: RealReplicaSet,
    front: ServedProcess,
    kills: list[Callable[[], None]],
    seed: int,
    pause: float = 0.05,
) -> None:
    """Law Once: every majority committed change is shown once, in order, whatever is killed."""
    rng = random.Random(seed)
    start = majority_end(three)
    consumer = Consumer(lambda: front.client(serverSelectionTimeoutMS=5000), start)
    consumer.start()
    with writing(three, seed, pause):
        for kill in kills:
            _wait_for_events(consumer, rng.randrange(1, 10))
            kill()
    end = majority_end(three)
    tokens = consumer.end(end)
    with three.client() as client:
        expected = tokens_of(client, DATABASE, start, end)
    assert len(expected) > len(kills)
    assert tokens == expected
    assert not front.faults()


def _wait_for_events(consumer: Consumer, more: int) -> None:
    enough = len(consumer.tokens) + more
    wait_until(lambda: len(consumer.tokens) >= enough or consumer.error is not None)


def restart(process: ServedProcess | PipelineProcess) -> None:
    process.kill()
    process.start()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("via", ["oplog", pytest.param("stream", marks=pytest.mark.slow)])
def test_kills_of_tailrace_and_of_the_source(tmp_path: Path, via: str) -> None:
    with real_replica_set(tmp_path / "set") as one:

        def restart_source() -> None:
            one.members[0].kill()
            one.members[0].start()
            one.primary()

        front = ServedProcess(tmp_path, "--source", one.uri + _SOON, "--via", via)
        front.start()
        try:
            run_rounds(one, front, [lambda: restart(front), restart_source], SEEDS[0])
        finally:
            front.kill()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_kills_of_tailrace_the_pipeline_and_the_primary_in_many_rounds(
    java: None, tmp_path: Path, seed: int
) -> None:
    print("seed", seed, "rounds", ROUNDS)
    rng = random.Random(seed)
    three = RealReplicaSet(tmp_path, members=MEMBERS)
    history = tmp_path / "history"
    front = ServedProcess(tmp_path, "--source", three.uri + _SOON, "--history", str(history))
    pipeline = PipelineProcess(tmp_path, three.uri, history)
    try:
        three.start(SETTINGS)
        wait_for_members(three)
        faults = Faults(three, tmp_path, seed)
        pipeline.start()
        front.start()

        def kill_primary() -> None:
            faults.kill_primary()
            wait_for_members(three)

        def kill_pipeline_at_work() -> None:
            pipeline.wait_for_commit()
            restart(pipeline)

        choices: list[Callable[[], None]] = [
            lambda: restart(front),
            lambda: restart(front),
            lambda: restart(pipeline),  # most likely before it has begun
            kill_pipeline_at_work,
            kill_primary,
            kill_primary,
        ]
        start = majority_end(three)
        run_rounds(three, front, rng.choices(choices, k=ROUNDS), seed, pause=0.3)
        end = majority_end(three)
        with three.client() as client, front.client() as served:
            expected = tokens_of(client, DATABASE, start, end)

            def is_held() -> bool:
                shown = served.admin.command("serverStatus")["history"]
                return bool(shown["exists"] and shown["through"] >= end)

            wait_until(is_held)
        front.stop()
        only_history = ServedProcess(
            tmp_path, "--source", three.uri + _SOON, "--history", str(history), "--head", "off"
        )
        only_history.start()
        try:
            with only_history.client() as served:
                found = tokens_of(served, DATABASE, start, end)
        finally:
            only_history.kill()
        assert found == expected
    finally:
        front.kill()
        pipeline.kill()
        three.stop()
