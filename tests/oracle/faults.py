"""Faults of a real replica set: elections, rollbacks, frozen members, members that leave and join."""

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bson import Timestamp
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from tests.laws.busy_writers import DATABASE
from tests.oracle.real_server import RealMongod, RealReplicaSet
from tests.spark.pipeline_runs import wait_until

Document = dict[str, Any]
MEMBERS: Final = 3
SETTINGS: Final = {
    "electionTimeoutMillis": 1000,
    "heartbeatIntervalMillis": 200,
    "catchUpTimeoutMillis": 2000,
}
ROLLED_BACK: Final = "rolled back"
"""The collection of writes that only one member had."""
_JOURNALED: Final = WriteConcern(w=1, j=True)


class Faults:
    """Every fault leaves a set of which all members run and one is primary."""

    def __init__(self, replica_set: RealReplicaSet, folder: Path, seed: int) -> None:
        self._set = replica_set
        self._folder = folder
        self._rng = random.Random(seed)
        self.rolled_back: list[str] = []

    def all_in_random_order(self) -> list[Callable[[], None]]:
        faults = [
            self.step_down,
            self.kill_primary,
            self.freeze_primary,
            self.roll_back,
            self.remove_and_add_member,
            self.join,
        ]
        self._rng.shuffle(faults)
        return faults

    # -- elections ------------------------------------------------------------------------------------

    def step_down(self) -> None:
        with self._set.primary().client() as client:
            client.admin.command("replSetStepDown", 2, secondaryCatchUpPeriodSecs=1, force=True)
        self._set.primary()

    def kill_primary(self) -> None:
        primary = self._set.primary()
        primary.kill()
        self._set.primary()
        primary.start()

    def freeze_primary(self) -> None:
        """The deposed primary wakes up and does not know that it was deposed."""
        primary = self._set.primary()
        assert primary.process is not None
        primary.process.send_signal(signal.SIGSTOP)
        try:
            self._elected(primary)
        finally:
            primary.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not _is_primary(primary))

    # -- rollback -------------------------------------------------------------------------------------

    def roll_back(self) -> None:
        """The primary stores writes that no other member gets; then another one is elected."""
        primary = self._set.primary()
        others = [member for member in self._set.members if member is not primary]
        for member in others:
            _fail_point(member, "stopReplProducer", "alwaysOn")
        try:
            names = [f"lost-{len(self.rolled_back)}-{number}" for number in range(3)]
            with primary.client() as client, client[DATABASE].watch(max_await_time_ms=300) as stream:
                collection = client[DATABASE].get_collection(ROLLED_BACK, write_concern=_JOURNALED)
                collection.insert_many([{"_id": name} for name in names])
                collection.update_many({}, {"$set": {"seen": False}})
                assert _shown(stream.try_next()) != ROLLED_BACK  # waits: nothing of it is majority committed
            self.rolled_back += names
            primary.kill()
        finally:
            for member in others:
                _fail_point(member, "stopReplProducer", "off")
        self._elected(primary)
        primary.start()
        wait_until(lambda: "Rollback summary" in primary.log.read_text(errors="replace"))

    # -- members --------------------------------------------------------------------------------------

    def remove_and_add_member(self) -> None:
        """A member leaves, also if it is the primary, and joins with what it has."""
        member = self._rng.choice(self._set.members[:MEMBERS])
        if _is_primary(member):
            self.step_down()
        whole = self._config()
        self._reconfigure([found for found in whole if found["host"] != member.address])
        self._reconfigure(whole)
        wait_until(lambda: _is_secondary(member))

    def join(self) -> None:
        """A new member without data, which is never elected: its oplog begins late."""
        member = RealMongod(self._folder / f"member{len(self._set.members)}", replica_set=self._set.name)
        member.start()
        self._set.members.append(member)
        members = self._config()
        number = 1 + max(found["_id"] for found in members)
        self._reconfigure([*members, {"_id": number, "host": member.address, "priority": 0, "votes": 0}])
        wait_until(lambda: _is_secondary(member))

    def _config(self) -> list[Document]:
        with self._set.primary().client() as client:
            members: list[Document] = client.admin.command("replSetGetConfig")["config"]["members"]
        return members

    def _reconfigure(self, members: list[Document]) -> None:
        with self._set.primary().client() as client:
            config = client.admin.command("replSetGetConfig")["config"]
            changed = {**config, "members": members, "version": config["version"] + 1}
            client.admin.command("replSetReconfig", changed, maxTimeMS=60_000)

    def _elected(self, instead: RealMongod) -> None:
        """Wait for another primary."""
        others = [member for member in self._set.members if member is not instead]
        wait_until(lambda: any(_is_primary(member) for member in others))


def majority_end(replica_set: RealReplicaSet) -> Timestamp:
    """The time of a majority committed write that is newer than everything before."""
    with replica_set.client(w="majority") as client:
        time: Timestamp = client.admin.command("appendOplogNote", data={}, writeConcern={"w": "majority"})[
            "operationTime"
        ]
        return time


def wait_for_members(replica_set: RealReplicaSet) -> None:
    """Wait until all members have their copy of the data, and so an oplog of their own."""
    wait_until(lambda: all(_is_primary(member) or _is_secondary(member) for member in replica_set.members))


def _fail_point(member: RealMongod, name: str, mode: str) -> None:
    with member.client() as client:
        client.admin.command("configureFailPoint", name, mode=mode)


def _shown(event: Any) -> str | None:
    return None if event is None else event["ns"].get("coll")


def _is_primary(member: RealMongod) -> bool:
    return _hello(member).get("isWritablePrimary", False) is True


def _is_secondary(member: RealMongod) -> bool:
    return _hello(member).get("secondary", False) is True


def _hello(member: RealMongod) -> Document:
    """What a member says of itself; nothing while it closes its connections."""
    try:
        with member.client(serverSelectionTimeoutMS=2000) as client:
            found: Document = client.admin.command("hello")
    except PyMongoError:
        return {}
    return found
