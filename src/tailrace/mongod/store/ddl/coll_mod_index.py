"""`collMod` of an index: change its expiry, or whether it is hidden or unique.

An index becomes unique in two steps. With `prepareUnique` it takes no further duplicates; once the old ones
are gone, `unique` converts it, or returns the documents that still conflict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bson import Int64

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import whole_number
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.collection_options import MAX_EXPIRE_AFTER_SECONDS, invalid
from tailrace.mongod.store.ddl.index_spec import check_expiry
from tailrace.mongod.store.ddl.timeseries_indexes import shown_spec
from tailrace.mongod.store.indexes.index_keys import index_keys
from tailrace.mongod.store.write_unit import WriteUnit

_MOST_VIOLATIONS = 1000


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The field `index` of collMod; None means no change."""

    name: str | None = None
    key_pattern: Mapping[str, Any] | None = None
    expire_after_seconds: int | None = None
    hidden: bool | None = None
    unique: bool | None = None
    prepare_unique: bool | None = None


@dataclass(frozen=True, slots=True)
class ChangedIndex:
    """The collection with the changed index, and the parts of the oplog entry and of the reply."""

    collection: Collection
    logged: dict[str, Any]
    before: dict[str, Any]
    reply: dict[str, Any]


def change_index(unit: WriteUnit, collection: Collection, change: IndexChange) -> ChangedIndex:
    """Change an index; the caller stores the collection in the catalog and logs the change.

    A value that the index has already is no change: it is neither logged nor in the reply.
    """
    index = _find(collection, change)
    found = _Change(dict(index.spec))
    if change.expire_after_seconds is not None:
        _change_expiry(index, change.expire_after_seconds, found)
    if change.hidden is not None:
        if index.is_id:
            raise CommandError(ErrorCode.BadValue, "can't hide _id index")
        found.flag("hidden", change.hidden)
    if change.prepare_unique is not None and not index.unique:
        found.flag("prepareUnique", change.prepare_unique)
    changed = Index(index.ident, found.spec, index.changed)
    if change.unique is not None:
        changed = _made_unique(unit, collection, index, change, found.spec)
        if changed is not index and not index.unique:
            found.logged["unique"] = found.reply["unique_new"] = True
    if not found.logged:
        return ChangedIndex(collection, {}, {}, {})
    changed = Index(changed.ident, changed.spec, unit.new_ident())
    indexes = tuple(changed if other is index else other for other in collection.indexes)
    logged = {"name": index.name, **found.logged}
    return ChangedIndex(collection.with_changes(indexes=indexes), logged, found.before, found.reply)


class _Change:
    """What becomes of an index: its specification, and the parts of the oplog entry and of the reply."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.logged: dict[str, Any] = {}
        self.before: dict[str, Any] = {}
        self.reply: dict[str, Any] = {}

    def flag(self, option: str, value: bool) -> None:
        """Switch an option on or off; what is switched on becomes the last field."""
        old = bool(self.spec.pop(option, False))
        if value:
            self.spec[option] = True
        if old != value:
            self.before[option] = self.reply[f"{option}_old"] = old
            self.logged[option] = self.reply[f"{option}_new"] = value


def _find(collection: Collection, change: IndexChange) -> Index:
    if (change.name is None) == (change.key_pattern is None):
        raise invalid(
            "Must specify either index name or key pattern."
            if change.name is None
            else "Cannot specify both key pattern and name."
        )
    wanted = (change.expire_after_seconds, change.hidden, change.unique, change.prepare_unique)
    if all(value is None for value in wanted):
        raise invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field")
    clustered = collection.options.get("clusteredIndex")
    if (
        change.hidden is not None
        and isinstance(clustered, Mapping)
        and (clustered["name"] == change.name or clustered["key"] == change.key_pattern)
    ):
        raise CommandError(6011800, "The option is not supported for a clusteredIndex")
    if change.name is not None:
        index = collection.index(change.name)
        if index is None:
            raise CommandError(
                ErrorCode.IndexNotFound, f"cannot find index {change.name} for ns {collection.ns}"
            )
        return index
    pattern = dict(change.key_pattern or {})
    found = [
        index
        for index in collection.indexes
        if list(shown_spec(collection, index)["key"].items()) == list(pattern.items())
    ]
    if not found:
        raise CommandError(
            ErrorCode.IndexNotFound, f"cannot find index {shell(pattern)} for ns {collection.ns}"
        )
    if len(found) > 1:
        raise CommandError(
            ErrorCode.AmbiguousIndexKeyPattern,
            f"index keyPattern {shell(pattern)} matches {len(found)} indexes, must use index name",
        )
    return found[0]


def _change_expiry(index: Index, given: int, found: _Change) -> None:
    if index.is_id:
        raise invalid("the _id field does not support TTL indexes")
    seconds = min(given, MAX_EXPIRE_AFTER_SECONDS)
    old = found.spec.pop("expireAfterSeconds", None)
    found.spec["expireAfterSeconds"] = Int64(seconds)
    try:
        check_expiry(found.spec)
    except CommandError as error:
        raise invalid(error.message) from None
    if old is not None:
        found.before["expireAfterSeconds"] = found.reply["expireAfterSeconds_old"] = Int64(
            whole_number(old) or 0
        )
    found.logged["expireAfterSeconds"] = found.reply["expireAfterSeconds_new"] = Int64(seconds)


def _made_unique(
    unit: WriteUnit, collection: Collection, index: Index, change: IndexChange, spec: dict[str, Any]
) -> Index:
    if not change.unique:
        raise CommandError(ErrorCode.BadValue, "a unique index cannot be made non-unique")
    if index.unique:
        return index
    if not index.spec.get("prepareUnique"):
        raise invalid("Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.")
    violations = _violations(unit, collection, index)
    if violations:
        error = CommandError(
            ErrorCode.CannotConvertIndexToUnique,
            "Cannot convert the index to unique. Please resolve conflicting documents before running collMod "
            "again.",
        )
        error.details = {"violations": violations}
        raise error
    spec.pop("prepareUnique", None)
    unique = Index(unit.new_ident(), {**spec, "unique": True})
    for key, document in unit.records(collection):
        unit.add_to_index(collection, unique, key, document)
    unit.discard("index", index.ident)
    return unique


def _violations(unit: WriteUnit, collection: Collection, index: Index) -> list[dict[str, Any]]:
    """The `_id` values of documents that share a key."""
    by_key: dict[bytes, list[bytes]] = {}
    for key, document in unit.records(collection):
        for index_key in index_keys(index, document):
            by_key.setdefault(index_key, []).append(key)
    groups = [keys for keys in by_key.values() if len(keys) > 1][:_MOST_VIOLATIONS]
    return [{"ids": [_id_at(unit, collection, key) for key in keys]} for keys in groups]


def _id_at(unit: WriteUnit, collection: Collection, key: bytes) -> Any:
    return documents.decode(unit.record(collection, key) or rawbson.EMPTY).get("_id")
