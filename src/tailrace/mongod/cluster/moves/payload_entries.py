"""No-op oplog entries from which change streams make the events of sharding.

An event that must appear exactly once, even if a kill interrupts the command, is logged together with a mark
in the store's metadata: `log_once`. The mark is removed when the placement has changed.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.documents import encode
from tailrace.events.entry_bytes import Operation
from tailrace.mongod.cluster.placement.shard_metadata import put_shard_key
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


def payload_entry(
    ns: str,
    uuid: bytes | None,
    payload: Mapping[str, Any],
    *,
    message: Mapping[str, Any] | None = None,
    from_migrate: bool | None = None,
    destined_recipient: str | None = None,
) -> Operation:
    """An entry whose payload's first field names the event; the default ``message`` is that field."""
    name, value = next(iter(payload.items()))
    return Operation(
        "n",
        ns,
        encode({"msg": {name: value} if message is None else dict(message)}),
        uuid,
        encode(payload),
        destined_recipient=destined_recipient,
        from_migrate=from_migrate,
    )


async def log_payload(
    store: Store, ns: str, uuid: bytes | None, payload: Mapping[str, Any], **fields: Any
) -> int:
    """Log such an entry in a shard's oplog; returns its cluster time."""
    entry = payload_entry(ns, uuid, payload, **fields)
    return await store.write(lambda unit: unit.log(entry))


def log_once(unit: WriteUnit, mark: str, entry: Operation) -> None:
    """Log an entry and set the mark, unless the mark is set already."""
    if unit.meta(mark) is None:
        unit.log(entry)
        unit.put_meta(mark, b"1")


async def announce_sharded(
    store: Store, collection: Collection, paths: tuple[str, ...], payload: Mapping[str, Any]
) -> None:
    """Log that a collection has a new shard key and store the key's fields on the shard, exactly once."""
    entry = payload_entry(collection.ns, collection.uuid, payload)

    def work(unit: WriteUnit) -> None:
        if unit.meta(_mark(collection.uuid)) is None:
            put_shard_key(unit, collection.ns, paths)
            log_once(unit, _mark(collection.uuid), entry)

    await store.write(work)


async def clear_announcement(store: Store, uuid: bytes) -> None:
    """Remove the mark of `announce_sharded`."""
    with store.snapshot() as snapshot:
        is_marked = snapshot.meta(_mark(uuid)) is not None
    if is_marked:
        await store.write(lambda unit: unit.put_meta(_mark(uuid), None))


def _mark(uuid: bytes) -> str:
    return f"sharding.{uuid.hex()}"
