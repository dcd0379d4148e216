"""Every event comes once and in order, despite faults of connections and servers.

Runs are seeded; a failure shows its seed. `make test-slow` makes a thousand runs.
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pymongo.common
import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, DuplicateKeyError

from tailrace.testing.replica_set import ReplicaSet
from tests.client.cutting_proxy import CuttingProxy
from tests.client.shells import SHELLS, Event, Stream, keys, opened, take

REPLICA_SET = "rs0"
LABEL = ["ResumableChangeStreamError"]
EAGER = {"serverMonitoringMode": "poll", "appname": "stream"}
"""A client that notices a lost server at once; with streamed heartbeats it takes half a second."""

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _eager_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMongo also waits half a second between two heartbeats, which would take minutes in all."""
    monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.001)


@dataclass
class Scene:
    """A server, a proxy in front of it, and a client that does not use the proxy."""

    replica_set: ReplicaSet
    proxy: CuttingProxy
    direct: MongoClient[Event]
    collection: Collection[Event] = field(init=False)

    def __post_init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Another collection, so that runs do not see each other's events."""
        self.collection = self.direct.faults[f"c{next(_numbers)}"]

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.proxy.port}/?replicaSet={REPLICA_SET}"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with CuttingProxy() as proxy:
        advertised = f"127.0.0.1:{proxy.port}"
        with ReplicaSet(replica_set=REPLICA_SET, advertise=advertised) as replica_set:
            host, proxy.target_port = replica_set.address
            with MongoClient[Event](host, proxy.target_port, directConnection=True) as direct:
                yield Scene(replica_set, proxy, direct)


# -- a cut at every byte ----------------------------------------------------------------------------------


def cut_at_every_byte(scene: Scene, shell: str, command: str, step: int) -> int:
    """Cut each reply to a command ``step`` bytes later than the last; return the number of cuts."""
    scene.renew()
    before = scene.proxy.cuts
    with opened(shell, scene.uri, scene.collection.full_name, client=EAGER) as stream:
        for number in range(10_000):
            scene.collection.insert_many([{"_id": 2 * number}, {"_id": 2 * number + 1}])
            cuts = scene.proxy.cuts
            if command == "aggregate":
                kill_cursors(scene)
            scene.proxy.arm(command, number * step)
            assert keys(take(stream, 2)) == [2 * number, 2 * number + 1], f"cut after {number * step} bytes"
            scene.proxy.disarm()
            if scene.proxy.cuts == cuts:
                break  # the whole reply was forwarded
    return scene.proxy.cuts - before


def kill_cursors(scene: Scene) -> None:
    """Kill the stream's cursor on the server; the driver does not notice."""
    open_ones = scene.direct.admin.aggregate([{"$currentOp": {"idleCursors": True}}])
    name = scene.collection.full_name
    cursors = [
        operation["cursor"]["cursorId"]
        for operation in open_ones
        if operation.get("ns") == name and "cursor" in operation
    ]
    if cursors:
        scene.direct.faults.command("killCursors", scene.collection.name, cursors=cursors)


@pytest.mark.parametrize("command", ["getMore", "aggregate"])
def test_a_reply_cut_anywhere_loses_and_doubles_nothing(scene: Scene, shell: str, command: str) -> None:
    assert cut_at_every_byte(scene, shell, command, step=13) > 20


@pytest.mark.slow
@pytest.mark.parametrize("command", ["getMore", "aggregate"])
def test_a_reply_cut_at_every_byte_loses_and_doubles_nothing(scene: Scene, shell: str, command: str) -> None:
    assert cut_at_every_byte(scene, shell, command, step=1) > 300


# -- seeded faults ----------------------------------------------------------------------------------------


class Faults:
    """Faults between two events, chosen by a seed."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self._scene = scene
        self._rng = rng

    def strike(self) -> str:
        """Cause one fault and return its name."""
        fault = self._rng.choice(
            [self.cut, self.cut, self.cut_opening, self.lose_cursor, self.not_found, self.interrupt,
             self.break_connection, self.fail_kill, self.step_down, self.restart]
        )  # fmt: skip
        fault()
        return fault.__name__

    def cut(self) -> None:
        self._scene.proxy.arm("getMore", self._rng.randrange(900))

    def cut_opening(self) -> None:
        kill_cursors(self._scene)
        self._scene.proxy.arm("aggregate", self._rng.randrange(600))

    def lose_cursor(self) -> None:
        kill_cursors(self._scene)

    def not_found(self) -> None:
        self._fail({"times": 1}, ["getMore"], errorCode=43)

    def interrupt(self) -> None:
        code = self._rng.choice([6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436, 234, 133])
        self._fail({"times": self._rng.randint(1, 3)}, ["getMore"], errorCode=code, errorLabels=LABEL)

    def break_connection(self) -> None:
        self._fail({"times": self._rng.randint(1, 3)}, ["getMore"], closeConnection=True)

    def fail_kill(self) -> None:
        self._fail({"times": 2}, ["getMore", "killCursors"], errorCode=6, errorLabels=LABEL)

    def step_down(self) -> None:
        self._scene.replica_set.step_down()
        self._scene.replica_set.step_up()

    def restart(self) -> None:
        if self._rng.random() < 0.1:  # takes the longest
            self._scene.replica_set.restart()

    def _fail(self, mode: Event, commands: list[str], **data: Any) -> None:
        self._scene.direct.admin.command(
            "configureFailPoint",
            "failCommand",
            mode=mode,
            data={"failCommands": commands, "appName": "stream", **data},
        )

    def end(self) -> None:
        self._scene.proxy.disarm()
        self._scene.replica_set.settle()


def run_with_faults(scene: Scene, shell: str, seed: int) -> None:
    """Read a stream with some faults: there is one event for each insert, in order."""
    rng = random.Random(seed)
    scene.renew()
    faults = Faults(scene, rng)
    written, story = 0, list[str]()
    seen: list[Event] = []
    batch_size = rng.choice([None, 1, 2, 5])
    try:
        with opened(
            shell, scene.uri, scene.collection.full_name, client=EAGER, batch_size=batch_size
        ) as stream:
            for _ in range(rng.randint(1, 4)):
                count = rng.randint(1, 6)
                insert(scene.collection, range(written, written + count))
                written += count
                story.append(faults.strike())
                seen += take(stream, rng.randint(0, written - len(seen)))
            seen += take(stream, written - len(seen))
            assert keys(seen) == list(range(written))
            assert nothing_more(stream)
    except BaseException as error:
        error.add_note(f"shell {shell}, seed {seed}: {', '.join(story)}")
        raise
    finally:
        faults.end()


def insert(collection: Collection[Event], numbers: range) -> None:
    collection.insert_many([{"_id": number} for number in numbers])


def nothing_more(stream: Stream) -> bool:
    return stream.try_next() is None


def test_faults_lose_and_double_nothing(scene: Scene, shell: str) -> None:
    for seed in range(30):
        run_with_faults(scene, shell, seed)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_runs_with_faults_lose_and_double_nothing(scene: Scene, shell: str, part: int) -> None:
    for seed in range(1000 + part * 50, 1050 + part * 50):
        run_with_faults(scene, shell, seed)


# -- several members --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def members() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=3) as replica_set:
        yield replica_set


def insert_persistently(collection: Collection[Event], numbers: range) -> None:
    """Insert numbers in order; during elections a driver raises after two attempts."""
    for number in numbers:
        for _ in range(100):
            with suppress(DuplicateKeyError):  # an attempt that failed may have been done
                try:
                    collection.insert_one({"_id": number})
                except ConnectionFailure:
                    continue
            break
        else:
            raise AssertionError("no primary was found")


def take_persistently(stream: Stream, count: int) -> list[Event]:
    """Read events; the one attempt to resume may fail because another server is stepping down."""
    events: list[Event] = []
    for _ in range(100):
        try:
            while len(events) < count:
                events.append(stream.next())
        except ConnectionFailure:
            assert stream.alive
        else:
            return events
    raise AssertionError("no server was found")


def run_on_members(replica_set: ReplicaSet, shell: str, seed: int) -> None:
    """Read a stream with a random read preference while primaries step down and members are cut off."""
    rng = random.Random(seed)
    preference = rng.choice(["primary", "secondaryPreferred", "nearest"])
    settings = {**EAGER, "readPreference": preference}
    name = f"c{next(_numbers)}"
    written = 0
    seen: list[Event] = []
    try:
        with (
            MongoClient[Event](replica_set.uri, serverMonitoringMode="poll") as writer,
            opened(shell, replica_set.uri, f"members.{name}", client=settings) as stream,
        ):
            collection = writer.members[name]
            for _ in range(3):
                insert_persistently(collection, range(written, written + 3))
                written += 3
                seen += take_persistently(stream, rng.randint(0, written - len(seen)))
                if rng.random() < 0.5:
                    replica_set.step_down(0.01)
                else:
                    with replica_set.cut_off(rng.randrange(3)):
                        seen += take_persistently(stream, written - len(seen))
            seen += take_persistently(stream, written - len(seen))
            assert keys(seen) == list(range(written))
            assert nothing_more(stream)
    except BaseException as error:
        error.add_note(f"shell {shell}, seed {seed}, read preference {preference}")
        raise


def test_elections_and_lost_members_lose_and_double_nothing(members: ReplicaSet, shell: str) -> None:
    for seed in range(8):
        run_on_members(members, shell, seed)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_many_elections_and_lost_members_lose_and_double_nothing(members: ReplicaSet, shell: str) -> None:
    for seed in range(100, 150):
        run_on_members(members, shell, seed)
