"""`dbCheck`: log a hash of each batch of documents, which other members compare with their own."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import MaxKey, MinKey

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import decode, encode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import Operation
from tailrace.events.entry_bytes import command as command_entry
from tailrace.mongod.server.access.needs import right
from tailrace.mongod.server.access.privileges import ANY_RESOURCE
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, FLAG, LONG_MAX, NUMBER, OBJECT, Kind, at_least
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Reader
from tailrace.pacing import with_ticks

_NOT_REPLICATED: Final = 40619
_DOCUMENTS: Final = 5000
_BYTES: Final = 20 << 20
_LEAST_BYTES: Final = 100 << 10
_LEAST_TIME: Final = 10
_ALL: Final = "admin.$cmd"
_OF_ONE_COLLECTION: Final = ("minKey", "maxKey", "maxCount", "maxSize")


@dataclass(frozen=True, slots=True)
class _Limits:
    """Which documents are hashed, and how many at a time."""

    first: Any
    last: Any
    count: int
    size: int
    batch_count: int
    batch_size: int
    is_snapshot: bool

    @classmethod
    def of(cls, arguments: Arguments) -> "_Limits":
        return cls(
            first=arguments.value("minKey", MinKey()),
            last=arguments.value("maxKey", MaxKey()),
            count=arguments.integer("maxCount", LONG_MAX),
            size=arguments.integer("maxSize", LONG_MAX),
            batch_count=arguments.integer("maxDocsPerBatch", _DOCUMENTS),
            batch_size=arguments.integer("maxBytesPerBatch", _BYTES),
            is_snapshot=arguments.boolean("snapshotRead", True),
        )


async def run(context: MemberContext) -> Reply:
    """Unlike a mongod, which does it after its reply, this has logged everything when it replies."""
    arguments = context.arguments()
    named = context.command[context.name]
    if not is_string(named):
        for field in _OF_ONE_COLLECTION:
            if arguments.has(field):
                raise CommandError(ErrorCode.IDLUnknownField, f"BSON field '.{field}' is an unknown field.")
    limits = _Limits.of(arguments)
    arguments.ignore("maxCountPerSecond", "maxBatchTimeMillis", "batchWriteConcern")
    arguments.finish()
    collections = _chosen(context, named)
    await _log(context, command_entry("admin", {"dbCheck": _ALL, "type": "start"}))
    for collection in collections:
        with context.reader() as reader:
            found = _documents(reader, collection, limits)
        for batch in _batches(found, limits):
            context.check_deadline()
            o = {"dbCheck": collection.ns, "type": "batch", **batch}
            if limits.is_snapshot:
                o["readTimestamp"] = to_timestamp(context.node.store.last_committed)
            await _log(context, Operation("c", collection.ns, encode(o), uuid=collection.uuid))
    await _log(context, command_entry("admin", {"dbCheck": _ALL, "type": "stop"}))
    return {"ok": True}


def _chosen(context: MemberContext, named: object) -> list[Collection]:
    database, catalog = context.database, context.node.store.catalog
    if is_string(named):
        collection = catalog.collection(f"{database}.{named}")
        if collection is None:
            raise CommandError(ErrorCode.NamespaceNotFound, f"Collection {named} not found")
        if not (collection.is_logged and context.node.replication.is_replica_set):
            reason = f"Cannot run dbCheck on {collection.ns} because it is not replicated"
            raise CommandError(_NOT_REPLICATED, reason)
        return [collection]
    if database == "local":
        raise CommandError(ErrorCode.InvalidNamespace, "Cannot run dbCheck on local database")
    found = [collection for collection in catalog.collections(database) if collection.is_logged]
    if not found:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Database {database} not found")
    return found if context.node.replication.is_replica_set else []


async def _log(context: MemberContext, entry: Operation) -> None:
    await context.node.store.write(lambda unit: unit.log(entry))


def _documents(reader: Reader, collection: Collection, limits: _Limits) -> list[tuple[Any, bytes]]:
    """The documents after the first key, up to the last one, in the order of `_id`."""
    first, last = sort_key(limits.first), sort_key(limits.last)
    found: list[tuple[Any, Any, bytes]] = []
    for _, document in with_ticks(reader.records(collection)):
        identifier = decode(document).get("_id")
        key = sort_key(identifier)
        if first < key <= last:
            found.append((key, identifier, document))
    found.sort(key=lambda each: each[0])
    return [(identifier, document) for _, identifier, document in found]


def _batches(found: list[tuple[Any, bytes]], limits: _Limits) -> Iterator[dict[str, Any]]:
    """Hashes of one batch after another, with its ends; the last one ends at the last key that was wanted."""
    first, count, size = limits.first, limits.count, limits.size
    place = 0
    while True:
        batch = _next_batch(found[place:], min(limits.batch_count, count), min(limits.batch_size, size))
        place += len(batch)
        count -= len(batch)
        size -= sum(map(len, batch))
        is_last = place == len(found)
        last = limits.last if is_last else found[place - 1][0]
        yield {"md5": hashlib.md5(b"".join(batch)).hexdigest(), "minKey": first, "maxKey": last}
        if is_last or count <= 0 or size <= 0:
            return
        first = last


def _next_batch(found: list[tuple[Any, bytes]], most: int, room: int) -> list[bytes]:
    """At least one document if there is one."""
    batch: list[bytes] = []
    for _, document in found[:most]:
        room -= len(document)
        if batch and room < 0:
            break
        batch.append(document)
    return batch


_FIELDS: Final = command(
    {
        "dbCheck": Kind(
            lambda value: is_string(value) or NUMBER.accepts(value),
            "[long, int, decimal, double]",
            null_code=ErrorCode.IDLFailedToParse,
        ),
        "minKey": ANY, "maxKey": ANY, "maxCount": NUMBER, "maxSize": NUMBER, "maxCountPerSecond": NUMBER,
        "maxDocsPerBatch": at_least(1), "maxBytesPerBatch": at_least(_LEAST_BYTES),
        "maxBatchTimeMillis": at_least(_LEAST_TIME), "batchWriteConcern": OBJECT, "snapshotRead": FLAG,
    },
)  # fmt: skip

COMMAND = Command(
    "dbCheck",
    run,
    needs=lambda _context: (right(ANY_RESOURCE, "dbCheck"),),
    help="Log hashes of documents, to compare members.",
    fields=_FIELDS,
    is_write=True,
)
