"""Events that are written to the oplog as no-ops, with their payload in `o2`."""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, DdlParts, EventKinds
from tailrace.events.oplog_entry import OplogEntry

BUILT_IN: Final = frozenset({
    "shardCollection", "refineCollectionShardKey", "reshardCollection", "migrateLastChunkFromShard",
    "migrateChunkToNewShard", "reshardBegin", "reshardBlockingWrites", "reshardDoneCatchUp",
    "endOfTransaction",
})  # fmt: skip
CONTROL: Final = frozenset({"moveChunk", "movePrimary", "namespacePlacementChanged"})
_RESHARDING: Final = frozenset({"reshardBegin", "reshardBlockingWrites", "reshardDoneCatchUp"})


def transform_noop(entry: OplogEntry, kinds: EventKinds, supported: frozenset[str]) -> ChangeEvent:
    """The event of a no-op; the first known field of its payload names the type."""
    payload = entry.o2 or rawbson.EMPTY
    for _, name, _, _ in rawbson.elements(payload):
        operation_type = name.decode()
        if operation_type in BUILT_IN or operation_type in CONTROL or operation_type in supported:
            break
    else:
        raise CommandError(11352601, f"a no-op entry of {entry.head.ns!r} carries no known event")
    resharding_uuid = None
    if operation_type in _RESHARDING:
        found = rawbson.field(payload, b"reshardingUUID")
        if found is not None:
            resharding_uuid = rawbson.element(found[0], b"reshardingUUID", found[1])
    parts = DdlParts(
        description=rawbson.without(payload, (name,)),
        always_described=operation_type not in BUILT_IN,
        resharding_uuid=resharding_uuid,
    )
    if operation_type == "endOfTransaction":
        kind = kinds.of(operation_type, "", None, None, shows_ns=False)
    else:
        head = entry.head
        kind = kinds.of(operation_type, head.database, head.collection or None, head.ui)
    return ChangeEvent(entry, kind, ddl=parts)
