"""Which collection had a name at a cluster time, and whether the history has all of its changes.

A collection is known by its UUID: a rename moves it to another name, and one that is dropped and created
again is another one. Resharding gives a collection a new UUID, and its documents with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import documents
from tailrace.errors import HistoryError
from tailrace.events.change_event import CHANGES
from tailrace.events.cluster_time import in_words
from tailrace.events.scope import Namespace, Scope, check_kept
from tailrace.lake.past.base import BasePlan, Bases
from tailrace.lake.schema import times_of
from tailrace.lake.table import HistoryTable

_NAMED: Final = ("operation", "db", "coll", "uuid")
_RENAMED: Final = "rename"
_NAMING: Final = frozenset({"create", "drop", "dropDatabase", _RENAMED})
_RESHARDING: Final = "system.resharding."


@dataclass(frozen=True, slots=True)
class Lineage:
    """A collection and the interval of its changes."""

    uuids: frozenset[str]
    """Several if it was resharded."""
    after: int
    """The cluster time after which its changes begin."""
    base: BasePlan | None = None
    """The snapshot that has its documents, if the history does not have their inserts."""


@dataclass(slots=True)
class _Collection:
    uuids: set[str]
    after: int | None
    """None if it was there before the history began."""


@dataclass(slots=True)
class _Names:
    """The collections of one database, as its changes are read in order."""

    database: str
    begins: int
    by_name: dict[str, _Collection] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """Names that collections have lost."""
    is_whole: bool = False
    """Whether collections that were not met do not exist."""

    def knows(self, coll: str) -> bool:
        """Whether it is known which collection has a name, or that none has."""
        return self.is_whole or not self.begins or coll in self.by_name or coll in self.left

    def changed(self, coll: str, uuid: str) -> None:
        """A document of a collection was changed."""
        known = self.by_name.get(coll)
        if known is None or uuid not in known.uuids:
            self.by_name[coll] = self._found(uuid)

    def apply(self, event: Mapping[str, Any], uuid: str | None, time: int) -> None:
        """Something else happened."""
        operation, coll = event["operationType"], event.get("ns", {}).get("coll")
        if event.get("fromMigrate"):
            if operation == _RENAMED and coll.startswith(_RESHARDING) and uuid is not None:
                self._resharded(event["to"]["coll"], uuid)
        elif operation == "dropDatabase":
            self.by_name.clear()
            self.is_whole = True
        elif operation == "drop":
            self.by_name.pop(coll, None)
            self.left.add(coll)
        elif operation == "create" and uuid is not None:
            self.by_name[coll] = _Collection({uuid}, time - 1)
        elif operation == _RENAMED and uuid is not None:
            known = self.by_name.pop(coll) if coll in self.by_name else self._found(uuid)
            self.by_name[event["to"]["coll"]] = known
            self.left.add(coll)

    def _resharded(self, coll: str, uuid: str) -> None:
        """The copy with another shard key has got the name; its documents are those that were there."""
        if coll in self.by_name:
            self.by_name[coll].uuids.add(uuid)
        else:
            self.by_name[coll] = self._found(uuid)

    def _found(self, uuid: str) -> _Collection:
        """A collection without its creation; with an oplog from its beginning on, nothing was before."""
        return _Collection({uuid}, None if self.begins else 0)


def find_lineage(table: HistoryTable, namespace: Namespace, through: int) -> Lineage | None:
    """The collection that had a name at a cluster time; None if none had.

    Raises `HistoryError` if some of its changes are not in the history.
    """
    scope = Scope.collection(namespace.db, namespace.coll)
    check_kept(scope, table.kept, None)
    names = _names_at(table, namespace.db, through)
    found = names.by_name.get(namespace.coll)
    if found is None:
        if not names.knows(namespace.coll):
            raise HistoryError(
                f"the history in {table.place} begins with {in_words(table.begins)} and has no change of "
                f"{namespace}: what was there before is not known; check the name, or record a snapshot with "
                "tailrace.record_snapshot"
            )
        return None
    if found.after is None:
        return _on_base(table, namespace, frozenset(found.uuids), through)
    check_kept(scope, table.kept, found.after + 1)
    return Lineage(frozenset(found.uuids), found.after)


def _on_base(table: HistoryTable, namespace: Namespace, uuids: frozenset[str], through: int) -> Lineage:
    """A collection without its creation: it has a snapshot, from whose time on it is known."""
    begins = f"the history in {table.place} begins with {in_words(table.begins)}, and {namespace} was there "
    complete = Bases(table.store, table.begins).complete(uuids)
    if not complete:
        raise HistoryError(
            f"{begins}before: its documents cannot be rebuilt without a snapshot; record one with "
            "tailrace.record_snapshot, or copy the collection with tailrace mirror"
        )
    usable = [base for base in complete if base.settled <= through]
    if not usable:
        raise HistoryError(
            f"{begins}before; its snapshot is of {in_words(complete[0].settled)}, and {in_words(through)} is "
            "before that: ask for a later time"
        )
    base = usable[-1]
    check_kept(Scope.collection(namespace.db, namespace.coll), table.kept, base.first + 1)
    return Lineage(uuids, base.first, base.plan)


def _names_at(table: HistoryTable, database: str, through: int) -> _Names:
    names = _Names(database, table.begins)
    planned = sorted(
        (plan.at, plan.namespace.partition(".")[2], str(UUID(bytes=plan.uuid)))
        for plan in Bases(table.store, table.begins).plans
        if plan.is_needed and plan.at <= through and plan.namespace.partition(".")[0] == database
    )
    for batch in table.read(table.begins, through, columns=_NAMED):
        inside = pc.fill_null(pc.equal(batch.column("db").cast(pa.string()), database), False)
        rows = batch.filter(inside)
        columns = [rows.column(name).to_pylist() for name in _NAMED]
        for time, operation, _, coll, uuid in zip(times_of(rows).tolist(), *columns, strict=True):
            while planned and planned[0][0] < time:
                names.changed(*planned.pop(0)[1:])
            if operation in CHANGES and coll is not None and uuid is not None:
                names.changed(coll, uuid)
            elif operation in _NAMING:
                names.apply(_event(table, time, operation, coll, uuid), uuid, time)
    for _, name, of in planned:
        names.changed(name, of)
    return names


def _event(
    table: HistoryTable, time: int, operation: str, coll: str | None, uuid: str | None
) -> Mapping[str, Any]:
    """The event of a row; there are few that are no document changes."""
    for batch in table.read(time - 1, time, columns=("operation", "coll", "uuid", "event")):
        for row in batch.to_pylist():
            if (row["operation"], row["coll"], row["uuid"]) == (operation, coll, uuid):
                event: Mapping[str, Any] = documents.decode(row["event"])
                return event
    raise HistoryError(f"the history in {table.place} was changed while it was read; try again")
