"""`planCacheSetFilter`: say which indexes a shape of query may use."""

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.admin.index_filters import QueryShape
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    name = context.collection_name(wrong_type=ErrorCode.InvalidNamespace)
    collection = context.node.store.catalog.collection(f"{context.database}.{name}")
    if collection is None:
        raise CommandError(ErrorCode.BadValue, "no such collection")
    if "indexes" not in context.command:
        raise CommandError(ErrorCode.BadValue, "required field indexes missing")
    indexes = context.command["indexes"]
    if not isinstance(indexes, list):
        raise CommandError(ErrorCode.BadValue, "required field indexes must be an array")
    if not indexes:
        raise CommandError(ErrorCode.BadValue, "required field indexes must contain at least one index")
    for index in indexes:
        if not (isinstance(index, dict) or is_string(index)):
            raise CommandError(ErrorCode.BadValue, "each item in indexes must be an object or string")
        if isinstance(index, dict) and not index:
            raise CommandError(ErrorCode.BadValue, "index specification cannot be empty")
    context.node.index_filters.set(collection.uuid, QueryShape(context.command), indexes)
    return {}


COMMAND = Command(
    "planCacheSetFilter",
    run,
    needs=on_collection("planCacheIndexFilter"),
    help="Say which indexes a shape of query may use.",
)
