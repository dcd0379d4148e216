"""`reIndex`: rebuild the indexes of a collection; only a standalone server does it."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.store.ddl.drop import index_count
from tailrace.mongod.store.ddl.lookup import existing_collection


async def run(context: MemberContext) -> dict[str, Any]:
    """Indexes are always complete here, so there is nothing to build."""
    name = context.collection_name()
    if context.node.is_replicated:
        raise CommandError(
            ErrorCode.IllegalOperation,
            "reIndex is only allowed on a standalone mongod instance. "
            f"Cannot reIndex '{context.database}.{name}' while replication is active",
        )
    collection = existing_collection(context.node.store.catalog, context.database, name)
    number = index_count(collection)
    indexes = [dict(index.spec) for index in collection.indexes]
    return {"nIndexesWas": number, "nIndexes": number, "indexes": indexes}


COMMAND = Command(
    "reIndex", run, needs=on_collection("reIndex"), help="Rebuild the indexes of a collection.", is_write=True
)
