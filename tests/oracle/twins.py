"""The same raw commands to a real mongod and to Tailrace, which imitates its release."""

import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.mongod.server.raw_client import RawClient
from tests.oracle.arguments.values import Path, twice
from tests.oracle.comparison import Difference, Document, differences, value_differences

RELEASE: Final = "6.0.27"
_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Recalled:
    """In a command: a value that each server gave earlier, stored by `Twins.remember`."""

    name: str


@dataclass(frozen=True, slots=True)
class Pair:
    """What both servers answered."""

    real: Document
    ours: Document

    @property
    def differences(self) -> list[Difference]:
        return differences(self.real, self.ours)


@dataclass
class Tally:
    """How many commands were compared, and what was different, by kind."""

    compared: int = 0
    different: list[tuple[Document, list[Difference]]] = field(default_factory=list)

    def add(self, command: Document, found: list[Difference]) -> None:
        self.compared += 1
        if found:
            self.different.append((command, found))

    @property
    def equal_share(self) -> float:
        return 1 - len(self.different) / max(1, self.compared)

    def __str__(self) -> str:
        kinds = Counter(found[0].kind for _, found in self.different)
        lines = [f"{self.compared} compared, {len(self.different)} different {dict(kinds)}"]
        for command, found in self.different[:50]:
            lines.append(f"  {str(command)[:300]}")
            lines += [f"    {difference}"[:500] for difference in found[:3]]
        return "\n".join(lines)


class Side:
    """One of the two servers, with one connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.recalled: dict[str, Any] = {}
        self._client: RawClient | None = None

    def call(self, command: Document, doubled: Path | None = None) -> Document:
        """Run a command, if wanted with one field twice.

        A connection that the server closed counts as a reply of its own.
        """
        if self._client is None:
            endpoint = socket.create_connection(self.address, timeout=_TIMEOUT_SECONDS)
            self._client = RawClient(endpoint)
        try:
            filled = self._filled(command)
            if doubled is None:
                return self._client.call(filled)
            return self._client.call_raw(twice(filled, doubled))
        except (AssertionError, ConnectionError):
            self.close()
            return {"ok": 0.0, "code": "closed"}

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Recalled):
            return self.recalled[value.name]
        if isinstance(value, dict):
            return {name: self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return value

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None


class Twins:
    """Both servers; every command goes to both."""

    def __init__(self, real: tuple[str, int], ours: tuple[str, int]) -> None:
        self.real = Side(real)
        self.ours = Side(ours)
        self.tally = Tally()

    def run(self, command: Document, database: str = "test") -> Pair:
        """Run a command on both servers and count the comparison."""
        command = {**command, "$db": database}
        pair = Pair(self.real.call(command), self.ours.call(command))
        self.tally.add(command, pair.differences)
        return pair

    def both(self, command: Document, doubled: Path | None = None) -> Pair:
        """Run a command, which names its database, on both servers; it is not counted."""
        return Pair(self.real.call(command, doubled), self.ours.call(command, doubled))

    def same(self, command: Document, database: str = "test") -> Document:
        """Run a command on both servers, require equal replies, and return the real one."""
        pair = self.run(command, database)
        found = pair.differences
        assert not found, (
            f"{command}\n" + "\n".join(map(str, found)) + f"\nreal {pair.real}\nours {pair.ours}"
        )
        return pair.real

    def remember(self, name: str, pair: Pair, path: Sequence[str | int]) -> Recalled:
        """Store a part of both replies for later commands; use what is returned in their place."""
        for side, reply in ((self.real, pair.real), (self.ours, pair.ours)):
            value: Any = reply
            for step in path:
                value = value[step]
            side.recalled[name] = value
        return Recalled(name)

    def operation_time(self, name: str = "now") -> Recalled:
        """Store the time of both servers, for `startAtOperationTime`."""
        return self.remember(name, self.run({"ping": 1}), ["operationTime"])

    def events(
        self,
        stage: Document,
        *stages: Document,
        collection: str | int = 1,
        database: str = "test",
        count: int = 0,
    ) -> Pair:
        """Open a stream on both servers and read at least ``count`` events each, or until an error.

        Returns documents with the list of ``events`` and, if there was one, the ``error`` of each.
        """
        command: Document = {
            "aggregate": collection,
            "pipeline": [{"$changeStream": stage}, *stages],
            "cursor": {},
        }
        command["$db"] = database
        found = Pair(_drain(self.real, command, count), _drain(self.ours, command, count))
        self.tally.add(command, found.differences)
        return found

    def same_events(
        self,
        stage: Document,
        *stages: Document,
        collection: str | int = 1,
        database: str = "test",
        count: int = 0,
    ) -> list[Document]:
        """Require equal events of both servers, and return the real ones."""
        found = self.events(stage, *stages, collection=collection, database=database, count=count)
        assert not found.differences, f"{stage} {stages}\n" + "\n".join(map(str, found.differences))
        return list(found.real["events"])

    def oplog(self, since: Recalled) -> Pair:
        """Return the oplog entries after a time, without no-ops and without a mongod's own bookkeeping."""
        own = r"^(config\.|local\.|admin\.system\.keys$)"
        query = {"ts": {"$gt": since}, "op": {"$ne": "n"}, "ns": {"$not": {"$regex": own}}}
        query["o.create"] = {"$ne": "system.keys"}
        command = {"find": "oplog.rs", "filter": query, "batchSize": 100_000, "$db": "local"}
        return Pair(*({"ok": 1.0, "entries": _all(side, command)} for side in (self.real, self.ours)))

    def same_oplog(self, since: Recalled) -> list[Document]:
        """Require equal oplog entries after a time, and return the real ones."""
        pair = self.oplog(since)
        found = list(value_differences("oplog", pair.real["entries"], pair.ours["entries"]))
        assert not found, "\n".join(map(str, found))
        return list(pair.real["entries"])

    def close(self) -> None:
        self.real.close()
        self.ours.close()


def end_cursors(twins: Twins, pair: Pair) -> None:
    """End the cursors of replies."""
    for side, reply in ((twins.real, pair.real), (twins.ours, pair.ours)):
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id"):
            database, _, name = cursor["ns"].partition(".")
            side.call({"killCursors": name, "cursors": [cursor["id"]], "$db": database})


def _all(side: Side, command: Mapping[str, Any]) -> list[Document]:
    reply = side.call(dict(command))
    assert reply.get("ok"), reply
    found = list(reply["cursor"]["firstBatch"])
    while reply["cursor"]["id"]:
        name = reply["cursor"]["ns"].partition(".")[2]
        reply = side.call({"getMore": reply["cursor"]["id"], "collection": name, "$db": command["$db"]})
        found += reply["cursor"]["nextBatch"]
    return found


def _drain(side: Side, command: Document, count: int) -> Document:
    """Read a stream until ``count`` events are there and a batch is empty, or until it fails or ends."""
    reply = side.call(command)
    if not reply.get("ok"):
        return reply
    events = list(reply["cursor"]["firstBatch"])
    result: Document = {"ok": 1.0, "events": events}
    while reply["cursor"]["id"]:
        name = reply["cursor"]["ns"].partition(".")[2]
        wait = 1 if len(events) >= count else 2000
        more = {
            "getMore": reply["cursor"]["id"],
            "collection": name,
            "maxTimeMS": wait,
            "$db": command["$db"],
        }
        reply = side.call(more)
        if not reply.get("ok"):
            result["error"] = {"code": reply.get("code"), "codeName": reply.get("codeName")}
            return result
        batch = reply["cursor"]["nextBatch"]
        events += batch
        if not batch and (len(events) >= count or wait > 1):
            name = reply["cursor"]["ns"].partition(".")[2]
            side.call({"killCursors": name, "cursors": [reply["cursor"]["id"]], "$db": command["$db"]})
            return result
    result["ended"] = True
    return result
