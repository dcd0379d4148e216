"""`dbHash`: hash the documents of collections, to compare servers."""

import hashlib
import time
from typing import Any

from bson import Binary

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import decode
from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Reader
from tailrace.pacing import with_ticks

_LOCAL = "local"


async def run(context: MemberContext) -> Reply:
    """MD5 sums of each collection's documents in the order of `_id`, and of those sums."""
    started = time.monotonic()
    wanted = context.command.get("collections")
    if not isinstance(wanted, list):
        wanted = []
    if not all(is_string(name) for name in wanted):
        raise CommandError(0, "collections entries have to be strings")
    sums: dict[str, str] = {}
    uuids: dict[str, Binary] = {}
    capped: list[str] = []
    with context.reader() as reader:
        for collection in sorted(reader.catalog.collections(context.database), key=lambda each: each.name):
            if context.database == _LOCAL or (wanted and collection.name not in wanted):
                continue
            sums[collection.name] = _sum(reader, collection)
            uuids[collection.name] = Binary(collection.uuid, 4)
            if collection.is_capped:
                capped.append(collection.name)
    milliseconds = int((time.monotonic() - started) * 1000)
    return {
        "host": context.node.address,
        "collections": sums,
        "capped": capped,
        "uuids": uuids,
        "md5": hashlib.md5("".join(sums.values()).encode()).hexdigest(),
        "timeMillis": milliseconds,
    }


def _sum(reader: Reader, collection: Collection) -> str:
    found: list[tuple[Any, bytes]] = []
    for _, document in with_ticks(reader.records(collection)):
        found.append((sort_key(decode(document).get("_id")), document))
    found.sort(key=lambda pair: pair[0])
    digest = hashlib.md5()
    for _, document in with_ticks(found):
        digest.update(document)
    return digest.hexdigest()


COMMAND = Command(
    "dbHash",
    run,
    needs=on_database("dbHash"),
    help="Hash the documents of collections.",
    aliases=("dbhash",),
    is_read=True,
)
