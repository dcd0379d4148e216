"""What a shard key demands of the other indexes of its collection."""

from collections.abc import Iterable, Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.shell_notation import shell


def check_new_indexes(sharded: ShardedCollection, specs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse unique indexes that do not begin with the shard key (67): no shard could see to them alone."""
    for spec in specs:
        key = spec.get("key")
        is_unique = spec.get("unique") or spec.get("prepareUnique")
        if is_unique and isinstance(key, Mapping) and not may_be_unique(sharded.key, key):
            raise CommandError(
                ErrorCode.CannotCreateIndex,
                f"a unique index on {shell(dict(key))} has to begin with the shard key "
                f"{shell(sharded.key.pattern)}: no shard could see to it alone",
            )


def may_be_unique(key: ShardKey, pattern: Mapping[str, Any]) -> bool:
    """Whether documents that are alike under an index are always on one shard.

    Those that are alike in `_id` are taken to be one; whoever shards by something else sees to that.
    """
    return tuple(pattern)[:1] == ("_id",) or tuple(pattern)[: len(key.paths)] == key.paths


def serves(key: ShardKey, index: Index) -> bool:
    """Whether a shard can find the documents of a range by an index."""
    spec = index.spec
    is_whole = not spec.get("sparse") and not spec.get("partialFilterExpression")
    is_plain = is_whole and not spec.get("collation") and not spec.get("hidden")
    return is_plain and key.is_prefix_of(dict(index.key))


def check_kept(sharded: ShardedCollection, collection: Collection, dropped: Iterable[Index]) -> None:
    """Refuse to lose the last index that serves the shard key (370)."""
    gone = {index.name for index in dropped}
    serving = {index.name for index in collection.indexes if serves(sharded.key, index)}
    if gone & serving and not serving - gone:
        raise CommandError(
            ErrorCode.CannotDropShardKeyIndex,
            f"{sharded.ns} needs an index on its shard key {shell(sharded.key.pattern)}; "
            "create another one first",
        )


def without_last(sharded: ShardedCollection, collection: Collection) -> list[str]:
    """The names of the indexes that `*` drops: all but the one on `_id` and one that serves the shard key."""
    kept = {index.name for index in collection.indexes if index.is_id}
    serving = [index.name for index in collection.indexes if serves(sharded.key, index)]
    if kept.isdisjoint(serving):
        kept |= set(serving[:1])
    return [index.name for index in collection.indexes if index.name not in kept]
