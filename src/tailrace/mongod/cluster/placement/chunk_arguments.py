"""Read the command arguments that name a chunk."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.chunk_map import Chunk
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.placement.targeting import exact_key
from tailrace.mongod.server.dispatch.arguments import Arguments

_BOTH_ENDS: Final = 2


def bounds_argument(
    arguments: Arguments, key: ShardKey, field: str = "bounds"
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """`[lower, upper]`, the ends of a chunk with all fields of the key; None if the field is missing."""
    bounds = arguments.array(field, None)
    if bounds is None:
        return None
    if len(bounds) != _BOTH_ENDS or not all(isinstance(bound, dict) for bound in bounds):
        raise CommandError(ErrorCode.BadValue, f"'{field}' must be the two ends of a chunk, [lower, upper]")
    low, high = bounds
    key.check_bound(low, whole=True)
    key.check_bound(high, whole=True)
    if key.bound(low) >= key.bound(high):
        raise CommandError(ErrorCode.BadValue, f"{shell(low)} does not come before {shell(high)}")
    return low, high


def chunk_of_query(collection: TrackedCollection, query: Mapping[str, Any]) -> Chunk:
    """The chunk of the documents that match a query, which must have a value for each field of the key."""
    key = collection.key
    values = exact_key(key, query)
    if values is None:
        raise CommandError(
            ErrorCode.ShardKeyNotFound,
            f"{shell(dict(query))} does not have a value for each field of the shard key "
            f"{shell(key.pattern)}",
        )
    return collection.chunks.chunk_of(key.bound(key.hashed(values)))
