"""The profiler: commands on a database are written to its collection `system.profile`.

At level 1 those that take longer than `slowms`, at level 2 all. The collection is capped and, as on a mongod,
its changes are not logged. Entries have no figures on plans and locks.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.profile_filter import ProfileFilter
from tailrace.mongod.store.capped import excess
from tailrace.mongod.store.catalog import PROFILE, Collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

OFF: Final = 0
SLOW: Final = 1
ALL: Final = 2
_SIZE: Final = 1 << 20
_MOST_OF_COMMAND: Final = 50_000
_DEFAULT_SLOW_MS: Final = 100
_OPERATIONS: Final = {
    "find": "query", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove",
}  # fmt: skip
_WITHOUT_NAMESPACE: Final = frozenset({"listCollections", "dbStats", "dropDatabase", "profile"})
_STATEMENTS: Final = {"update": "updates", "delete": "deletes"}


@dataclass(slots=True)
class Level:
    """The profiler of one database."""

    level: int = OFF
    filter: ProfileFilter | None = None


class Profiler:
    """The profilers of a member's databases; `slowms` and `sampleRate` are common to all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._levels: dict[str, Level] = {}
        self.slow_ms = _DEFAULT_SLOW_MS
        self.sample_rate = 1.0
        self.is_on = False

    def of(self, database: str) -> Level:
        return self._levels.get(database, Level())

    async def set(self, database: str, level: Level) -> None:
        """Set the level of a database; its collection is created if it is to be written to."""
        if level.level != OFF:
            await self._store.write(lambda unit: _collection(unit, database))
        self._levels[database] = level
        self.is_on = any(each.level != OFF for each in self._levels.values())

    async def note(self, context: "Context", reply: bytes, error: CommandError | None) -> None:
        """Write the entries of a command that has ended, if its database wants them."""
        level = self.of(context.database)
        ns = context.namespace
        if level.level == OFF or ns is None or context.entry.name in _WITHOUT_NAMESPACE:
            return
        milliseconds = int((time.monotonic() - context.started) * 1000)
        if level.filter is None and not self._is_wanted(level.level, milliseconds):
            return
        shown = decode(reply) if reply else {}
        entries = [
            {**entry, **_end(context, milliseconds, self._store)}
            for entry in _entries(context, ns, shown, len(reply), error)
        ]
        if level.filter is not None:
            entries = [entry for entry in entries if level.filter.matches(entry)]
        if entries:
            database = context.database
            documents = [encode(entry) for entry in entries]
            await self._store.write(lambda unit: _write(unit, database, documents))

    def _is_wanted(self, level: int, milliseconds: int) -> bool:
        if level == SLOW and milliseconds < self.slow_ms:
            return False
        return self.sample_rate >= 1 or random.random() < self.sample_rate


def _collection(unit: UnitOfWork, database: str) -> Collection:
    existing = unit.catalog.collection(f"{database}.{PROFILE}")
    if existing is not None:
        return existing
    options = {"capped": True, "size": _SIZE}
    created = unit.create_collection(database, PROFILE, options)
    # Its documents have no `_id`.
    without_index = created.with_changes(indexes=())
    unit.put_collection(without_index)
    return without_index


def _write(unit: WriteUnit, database: str, documents: list[bytes]) -> None:
    collection = unit.catalog.collection(f"{database}.{PROFILE}")
    if collection is None or not collection.is_capped:
        return  # it was dropped meanwhile
    for document in documents:
        unit.put_new(collection, document)
    for key, oldest in excess(unit, collection):
        unit.put_removed(collection, key, oldest)


def _entries(
    context: "Context", ns: str, reply: Mapping[str, Any], size: int, error: CommandError | None
) -> list[dict[str, Any]]:
    """The entries of a command: one for each statement of an update or a delete."""
    name = context.entry.name
    operation = _OPERATIONS.get(name, "command")
    field = _STATEMENTS.get(name)
    if field is not None and error is None:
        statements = [decode(each) for each in context.request.sequences.get(field, ())]
        return [
            {"op": operation, "ns": ns, "command": _cut(statement), "numYield": 0}
            for statement in statements or context.command.get(field, ())
        ]
    entry: dict[str, Any] = {"op": operation, "ns": ns, "command": _cut(_whole_command(context))}
    cursor = reply.get("cursor")
    if name == "getMore":
        entry["cursorid"] = context.command["getMore"]
    elif isinstance(cursor, Mapping) and cursor.get("id"):
        entry["cursorid"] = Int64(cursor["id"])
    if name == "insert" and error is None:
        entry["ninserted"] = reply.get("n", 0)
    if isinstance(cursor, Mapping) and name != "listIndexes":
        if not cursor.get("id"):
            entry["cursorExhausted"] = True
        batch = cursor.get("firstBatch", cursor.get("nextBatch", ()))
        entry |= {"numYield": 0, "nreturned": len(batch)}
    else:
        entry["numYield"] = 0
    if error is not None:
        entry |= {"ok": 0.0, "errMsg": error.message, "errName": error.code_name, "errCode": error.code}
    return [{**entry, "responseLength": size, "protocol": "op_msg"}]


def _end(context: "Context", milliseconds: int, store: Store) -> dict[str, Any]:
    client = context.client
    shown: dict[str, Any] = {
        "millis": milliseconds,
        "ts": DatetimeMS(store.clock.wall.milliseconds()),
        "client": client.address.rpartition(":")[0],
    }
    if client.app_name is not None:
        shown["appName"] = client.app_name
    return {**shown, "allUsers": [], "user": ""}


def _whole_command(context: "Context") -> dict[str, Any]:
    command = context.shown_command
    for field, documents in context.request.sequences.items():
        if sum(map(len, documents)) > _MOST_OF_COMMAND:
            return {**command, field: f"{len(documents)} documents"}
        command = {**command, field: [decode(document) for document in documents]}
    return command


def _cut(command: Mapping[str, Any]) -> Mapping[str, Any]:
    """A command that is not too long for an entry."""
    if len(encode(command)) <= _MOST_OF_COMMAND:
        return command
    return {"$truncated": str(command)[:_MOST_OF_COMMAND]}
