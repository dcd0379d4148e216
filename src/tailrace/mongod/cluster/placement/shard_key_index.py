"""The index that a sharded collection needs on its key, and what other indexes must not promise."""

from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.index_rules import may_be_unique, serves
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.key_pattern import default_name
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.shell_notation import shell

SIMPLE: Final = {"locale": "simple"}


def is_served(reader: Reader, collection: Collection, key: ShardKey, *, unique: bool = False) -> bool:
    """Whether a shard can find ranges of the key by an index.

    Such an index begins with the key, lists every document once and compares strings as they are.
    """
    if key.paths == ("_id",) and not key.is_hashed:
        return True
    return any(
        serves(key, index)
        and not reader.is_multikey(index)
        and not (unique and (not index.unique or len(index.key) > len(key.paths)))
        for index in collection.indexes
    )


def needed_spec(collection: Collection, key: ShardKey, *, unique: bool) -> dict[str, Any]:
    """The specification of such an index, for createIndexes."""
    spec: dict[str, Any] = {"key": key.pattern, "name": default_name(key.pattern)}
    if unique:
        spec["unique"] = True
    if collection.options.get("collation") is not None:
        spec["collation"] = SIMPLE
    return spec


def check_unique_indexes(collection: Collection, key: ShardKey) -> None:
    """Refuse unique indexes that no shard can see to alone: they have to begin with the key (72)."""
    for index in collection.indexes:
        if not index.takes_duplicates and not may_be_unique(key, dict(index.key)):
            raise CommandError(
                ErrorCode.InvalidOptions,
                f"{collection.ns} cannot be sharded by {shell(key.pattern)}: the unique index "
                f"{index.name} does not begin with that key, so no shard could see to it",
            )


def check_served(reader: Reader, collection: Collection, key: ShardKey, *, unique: bool) -> None:
    """Refuse a key that a collection with documents has no index for (InvalidOptions, 72)."""
    if not is_served(reader, collection, key, unique=unique):
        kind = "a unique index on exactly" if unique else "an index that begins with"
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"{collection.ns} has documents, but no usable index for the shard key; create {kind} "
            f"{shell(key.pattern)}, that is neither sparse nor partial and has the simple collation",
        )


def check_places(reader: Reader, collection: Collection, key: ShardKey) -> None:
    """Refuse a key that one of the documents has an array for (InvalidOptions, 72)."""
    for _, document in reader.records(collection):
        try:
            key.key_of(document)
        except CommandError as error:
            raise CommandError(ErrorCode.InvalidOptions, error.message) from error
