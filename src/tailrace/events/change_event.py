"""A change event, before it is rendered in a stream's shape.

Transform makes one `ChangeEvent` from one oplog entry. It holds everything any stream could show, as raw
BSON slices of the entry; what a particular stream shows (expanded fields, raw updates, token version) is
decided when the event is rendered (`events/stages/render.py`). So one event serves every stream.
"""

from dataclasses import dataclass
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.layout.template import Template
from tailrace.events.layout.token import change_token
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import Head, OplogEntry

CLASSIC_TYPES: Final = frozenset({
    "insert", "update", "replace", "delete", "drop", "rename", "dropDatabase", "invalidate", "reshardBegin",
    "reshardBlockingWrites", "reshardDoneCatchUp", "migrateChunkToNewShard",
})  # fmt: skip
"""The only types a stream without `showExpandedEvents` returns."""


CHANGES: Final = frozenset({"insert", "update", "replace", "delete"})
"""The types of document changes."""


@dataclass(frozen=True, slots=True, eq=False)
class EventKind:
    """One operation type on one namespace.

    Compared by identity; `EventKinds` returns the same object for the same facts.
    """

    operation_type: str
    database: str
    collection: str | None
    uuid: bytes | None
    shows_ns: bool
    token: Template
    """The hex text of the resume tokens of its document changes"""


def namespace_document(database: str, collection: str | None) -> bytes:
    """``{db, coll}`` as events show it; ``coll`` is left out for a whole database."""
    parts = [rawbson.string(b"db", database.encode())]
    if collection is not None:
        parts.append(rawbson.string(b"coll", collection.encode()))
    return rawbson.document(*parts)


def make_kind(
    operation_type: str, database: str, collection: str | None, uuid: bytes | None, *, shows_ns: bool = True
) -> EventKind:
    """A kind that `EventKinds` does not know."""
    return EventKind(operation_type, database, collection, uuid, shows_ns, change_token(operation_type, uuid))


@dataclass(frozen=True, slots=True)
class DdlParts:
    """What events other than document changes have besides their kind."""

    description: bytes | None = None
    """`operationDescription`; it goes into the token whether or not the stream shows it"""
    always_described: bool = False
    """shown even without `showExpandedEvents`: view events and control events"""
    shows_uuid: bool = True
    to: bytes | None = None
    resharding_uuid: bytes | None = None
    """the element as in the entry"""
    state_before_change: bytes | None = None
    ns_type: str | None = None


class ChangeEvent:
    """One event; see the module's docstring.

    `document_key` is set for document changes. `full_document` is what an insert or a replace stored,
    `update` is the whole `o` of a delta update. `ddl` is set for everything else. An invalidate event has
    its `cause` and nothing else: its token is the cause's with one flag set. `shard` is where the entry was
    written, for look-ups that only that shard can answer. `shown` is the shape, the token version and the
    bytes of the last rendering. `pre_image` is the document before the change, if it was known when the event
    was made; else it is looked up when a stream needs it.
    """

    __slots__ = (
        "cause",
        "ddl",
        "document_key",
        "entry",
        "full_document",
        "kind",
        "pre_image",
        "shard",
        "shown",
        "update",
    )

    def __init__(
        self,
        entry: OplogEntry,
        kind: EventKind,
        document_key: bytes | None = None,
        full_document: bytes | None = None,
        update: bytes | None = None,
        ddl: DdlParts | None = None,
        cause: "ChangeEvent | None" = None,
        shard: str = "",
    ) -> None:
        self.entry = entry
        self.kind = kind
        self.document_key = document_key
        self.full_document = full_document
        self.update = update
        self.ddl = ddl
        self.cause = cause
        self.shard = shard
        self.shown: tuple[object, int, bytes] | None = None
        self.pre_image: bytes | None = None

    def __repr__(self) -> str:
        return f"<ChangeEvent {self.kind.operation_type} from {self.entry!r}>"

    @property
    def operation_type(self) -> str:
        """As shown to clients."""
        return self.kind.operation_type

    @property
    def cluster_time(self) -> int:
        """When the change was committed."""
        return self.entry.ts


class EventKinds:
    """The kinds found so far, by the entry's head in the common case."""

    def __init__(self) -> None:
        self._by_head: dict[tuple[Head, str], EventKind] = {}
        self._by_facts: dict[tuple[str, str, str | None, bytes | None, bool], EventKind] = {}

    def of_head(self, head: Head, operation_type: str) -> EventKind:
        """The kind of a document change."""
        kind = self._by_head.get((head, operation_type))
        if kind is None:
            kind = self.of(operation_type, head.database, head.collection, head.ui)
            remember(self._by_head, (head, operation_type), kind)
        return kind

    def of(
        self,
        operation_type: str,
        database: str,
        collection: str | None,
        uuid: bytes | None,
        *,
        shows_ns: bool = True,
    ) -> EventKind:
        """The kind of any other event."""
        facts = (operation_type, database, collection, uuid, shows_ns)
        kind = self._by_facts.get(facts)
        if kind is None:
            kind = make_kind(operation_type, database, collection, uuid, shows_ns=shows_ns)
            remember(self._by_facts, facts, kind)
        return kind
