"""`dataSize`: add up the bytes of all documents of a collection, or of those in a range."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.arguments import NOT_GIVEN, Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import COLLECTION, as_whole
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.pacing import with_ticks

_NO_LIMIT: Final = 0


async def run(context: Context) -> dict[str, Any]:
    """Zero if the collection does not exist."""
    started = time.monotonic()
    arguments = context.arguments()
    database, name = namespace_argument(arguments, context.name)
    is_in_range = _range(arguments)
    max_size = as_whole(arguments.value("maxSize", None)) or _NO_LIMIT
    max_objects = as_whole(arguments.value("maxObjects", None)) or _NO_LIMIT
    estimate = arguments.truth("estimate")
    arguments.finish()
    size = number = 0
    is_cut = False
    with context.reader() as reader:
        exists = reader.catalog.collection(f"{database}.{name}") is not None
        if exists:
            collection = existing_collection(reader.catalog, database, name)
            if is_in_range is None and not max_size and not max_objects:
                number, size = reader.count(collection)
            else:
                for _, document in with_ticks(reader.records(collection)):
                    if is_in_range is not None and not is_in_range(document):
                        continue
                    size += len(document)
                    number += 1
                    if (max_size and size > max_size) or (max_objects and number > max_objects):
                        is_cut = True
                        break
    reply: dict[str, Any] = {"estimate": estimate} if exists else {}
    reply |= {"size": size, "numObjects": number}
    if is_cut:
        reply["maxReached"] = True
    return {**reply, "millis": int((time.monotonic() - started) * 1000)}


def _range(arguments: Arguments) -> Callable[[bytes], bool] | None:
    """Whether a document is between `min` and `max` by the fields of `keyPattern`; None if all count."""
    lower, upper = _object(arguments, "min"), _object(arguments, "max")
    pattern = _object(arguments, "keyPattern") or None
    if arguments.given("min") is NOT_GIVEN and arguments.given("max") is NOT_GIVEN:
        return None
    if not lower or not upper or list(lower) != list(upper):
        raise CommandError(ErrorCode.BadValue, "max must be set if min is set, both with the same fields")
    fields = list(lower)
    if pattern is not None and list(pattern) != fields:
        raise CommandError(ErrorCode.BadValue, "min and max must have the fields of keyPattern")
    low, high = sort_key(list(lower.values())), sort_key(list(upper.values()))

    def is_in_range(document: bytes) -> bool:
        found = decode(document)
        key = sort_key([_value(found, field) for field in fields])
        return bool(low <= key < high)

    return is_in_range


def _object(arguments: Arguments, name: str) -> dict[str, Any]:
    """A document; what is none counts as empty."""
    value = arguments.value(name, None)
    return value if isinstance(value, dict) else {}


def _value(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


_FIELDS = old_command({"dataSize": COLLECTION, "datasize": COLLECTION})

COMMAND = Command(
    "dataSize",
    run,
    needs=on_full_name("find"),
    help="Add up the bytes of documents.",
    fields=_FIELDS,
    aliases=("datasize",),
    is_read=True,
    same_on_router=True,
)
