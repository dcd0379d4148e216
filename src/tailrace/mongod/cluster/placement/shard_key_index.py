"""The index that a shard key requires, and the restrictions it puts on unique indexes.

A shard enforces a unique index on its own documents only. Documents with equal values of a unique index must
therefore always be on one shard, which is the case if the index begins with the shard key.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.key_pattern import default_name
from tailrace.mongod.store.reader import Reader

SIMPLE: Final = {"locale": "simple"}


def supports_key(key: ShardKey, index: Index) -> bool:
    """Whether an index lists every document in the order of the shard key; it may still be multikey."""
    spec = index.spec
    is_whole = not spec.get("sparse") and not spec.get("partialFilterExpression")
    is_plain = is_whole and not spec.get("collation") and not spec.get("hidden")
    return is_plain and key.is_prefix_of(dict(index.key))


def has_key_index(reader: Reader, collection: Collection, key: ShardKey, *, unique: bool = False) -> bool:
    """Whether a shard can find ranges of the key with an index that lists every document exactly once."""
    if key.paths == ("_id",) and not key.is_hashed:
        return True
    return any(
        supports_key(key, index)
        and not reader.is_multikey(index)
        and not (unique and (not index.unique or len(index.key) > len(key.paths)))
        for index in collection.indexes
    )


def key_index_spec(collection: Collection, key: ShardKey, *, unique: bool) -> dict[str, Any]:
    """The createIndexes specification of an index that supports the key."""
    spec: dict[str, Any] = {"key": key.pattern, "name": default_name(key.pattern)}
    if unique:
        spec["unique"] = True
    if collection.options.get("collation") is not None:
        spec["collation"] = SIMPLE
    return spec


def may_be_unique(key: ShardKey, pattern: Mapping[str, Any]) -> bool:
    """Whether documents with equal values of an index are always on one shard.

    An index on `_id` is allowed: applications keep `_id` unique if the shard key is something else.
    """
    return tuple(pattern)[:1] == ("_id",) or tuple(pattern)[: len(key.paths)] == key.paths


# -- checks -------------------------------------------------------------------------------------------------


def check_has_key_index(reader: Reader, collection: Collection, key: ShardKey, *, unique: bool) -> None:
    """Raise InvalidOptions (72) if a collection with documents has no index that supports the key."""
    if not has_key_index(reader, collection, key, unique=unique):
        kind = "a unique index on exactly" if unique else "an index that begins with"
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"{collection.ns} has documents, but no usable index for the shard key; create {kind} "
            f"{shell(key.pattern)} that is neither sparse nor partial and has the simple collation",
        )


def check_key_values(reader: Reader, collection: Collection, key: ShardKey) -> None:
    """Raise InvalidOptions (72) if a document has an array in a field of the key."""
    for _, document in reader.records(collection):
        try:
            key.key_of(document)
        except CommandError as error:
            raise CommandError(ErrorCode.InvalidOptions, error.message) from error


def check_unique_indexes(collection: Collection, key: ShardKey) -> None:
    """Raise InvalidOptions (72) if a unique index does not begin with the key."""
    for index in collection.indexes:
        if not index.allows_duplicates and not may_be_unique(key, dict(index.key)):
            raise CommandError(
                ErrorCode.InvalidOptions,
                f"{collection.ns} cannot be sharded by {shell(key.pattern)}: the unique index "
                f"{index.name} does not begin with that key, so no shard could enforce it",
            )


def check_new_indexes(sharded: TrackedCollection, specs: Iterable[Mapping[str, Any]]) -> None:
    """Raise CannotCreateIndex (67) if a unique index does not begin with the shard key."""
    for spec in specs:
        key = spec.get("key")
        is_unique = spec.get("unique") or spec.get("prepareUnique")
        if is_unique and isinstance(key, Mapping) and not may_be_unique(sharded.key, key):
            raise CommandError(
                ErrorCode.CannotCreateIndex,
                f"a unique index on {shell(dict(key))} must begin with the shard key "
                f"{shell(sharded.key.pattern)}: no shard could enforce it alone",
            )


def check_dropped_indexes(
    sharded: TrackedCollection, collection: Collection, dropped: Iterable[Index]
) -> None:
    """Raise CannotDropShardKeyIndex (370) if no index that supports the shard key would be left."""
    gone = {index.name for index in dropped}
    supporting = {index.name for index in collection.indexes if supports_key(sharded.key, index)}
    if gone & supporting and not supporting - gone:
        raise CommandError(
            ErrorCode.CannotDropShardKeyIndex,
            f"{sharded.ns} needs an index on its shard key {shell(sharded.key.pattern)}; "
            "create another one first",
        )


def droppable_indexes(sharded: TrackedCollection, collection: Collection) -> list[str]:
    """The names that `*` drops: all indexes except the one on `_id` and one that supports the shard key."""
    left = {index.name for index in collection.indexes if index.is_id}
    supporting = [index.name for index in collection.indexes if supports_key(sharded.key, index)]
    if left.isdisjoint(supporting):
        left |= set(supporting[:1])
    return [index.name for index in collection.indexes if index.name not in left]
