"""No-op entries by which change streams hear of what sharding does to a collection."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.documents import encode
from tailrace.events.entry_bytes import Operation
from tailrace.mongod.server.server import Server


def payload_entry(
    ns: str,
    uuid: bytes | None,
    payload: Mapping[str, Any],
    *,
    message: Mapping[str, Any] | None = None,
    from_migrate: bool | None = None,
    destined_recipient: str | None = None,
) -> Operation:
    """An entry with a payload, whose first field names the event.

    Without a ``message`` the entry says what the first field says.
    """
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
    shard: Server, ns: str, uuid: bytes | None, payload: Mapping[str, Any], **fields: Any
) -> int:
    """Log such an entry in a shard's oplog; its cluster time."""
    entry = payload_entry(ns, uuid, payload, **fields)
    return await shard.store.write(lambda unit: unit.log(entry))
