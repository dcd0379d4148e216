"""`renameCollection` and `convertToCapped`, which ends in a rename."""

import secrets
import string
from collections.abc import Iterator
from typing import Any, Final

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.store.capped import insert_capped
from tailrace.mongod.store.catalog import OPLOG_NS, VIEWS, Collection
from tailrace.mongod.store.ddl.collection_options import check_capped_size, in_catalog_order, stored_size
from tailrace.mongod.store.ddl.create import check_no_view
from tailrace.mongod.store.ddl.drop import count_document, drop_collection
from tailrace.mongod.store.ddl.index_spec import copied_spec
from tailrace.mongod.store.ddl.lookup import check_uuid, check_writable, existing_collection
from tailrace.mongod.store.ddl.names import SYSTEM_PREFIX, check_new_collection
from tailrace.mongod.store.write_unit import WriteUnit

_NEVER_RENAMED: Final = frozenset({VIEWS})
_RANDOM_LETTERS: Final = 5
_LEAST_COPIED: Final = 8192
_CAUTION: Final = 4
"""How many times its size a skipped document counts, so that too many rather than too few are copied"""


def rename_collection(
    unit: WriteUnit,
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    drop_target: bool | bytes = False,
    stay_temp: bool = False,
    copy: str | None = None,
) -> None:
    """Rename a collection, within its database or to another one.

    ``drop_target`` allows to drop a collection that has the new name; a UUID allows it for that one only.
    In another database it is copied first, under the name ``copy``. An index that does not allow documents
    any more that it has makes that fail with `DuplicateKey`.
    """
    if source == target:
        raise CommandError(ErrorCode.IllegalOperation, "Can't rename a collection to itself")
    _check_new_name(unit, *target)
    if isinstance(drop_target, bytes):
        check_uuid(unit.catalog, *target, drop_target)
    collection = _source(unit, *source)
    _check_target(unit, collection, *target)
    replaced = unit.catalog.collection(f"{target[0]}.{target[1]}")
    if replaced is not None:
        if replaced.is_timeseries:
            raise CommandError(
                ErrorCode.NamespaceExists, f"a view already exists with that name: {'.'.join(target)}"
            )
        if drop_target is False:
            raise CommandError(ErrorCode.NamespaceExists, "target namespace exists")
        check_writable(replaced)
        unit.check_unused(replaced)
    unit.check_unused(collection)
    if source[0] == target[0]:
        replace_collection(unit, collection, target[1], replaced, stay_temp=stay_temp)
        return
    copied = _empty_copy(unit, collection, target[0], copy or copy_name())
    for _, document in unit.records(collection):
        unit.insert(copied, document)
    replace_collection(unit, copied, target[1], replaced, stay_temp=stay_temp)
    drop_collection(unit, collection)


def convert_to_capped(unit: WriteUnit, database: str, name: str, size: int) -> None:
    """Replace a collection by a capped one with as many of its newest documents as fit, without indexes."""
    collection = existing_collection(unit.catalog, database, name)
    if collection.is_timeseries:
        raise CommandError(
            ErrorCode.CommandNotSupportedOnView, f"Namespace {database}.{name} is a timeseries collection"
        )
    check_writable(collection)
    unit.check_unused(collection)
    if name.startswith(SYSTEM_PREFIX):
        raise CommandError(ErrorCode.BadValue, f"Invalid namespace: {collection.ns}")
    limit = stored_size(check_capped_size(database, name, size), unit.rules)
    options = {**collection.options, "capped": True, "size": limit, "temp": True}
    capped = unit.create_collection(
        database, _temporary_name(f"convertToCapped.{name}"), in_catalog_order(options)
    )
    for document in _newest(unit, collection, limit):
        insert_capped(unit, capped, document, None, from_migrate=True)
    replace_collection(unit, capped, name, collection, stay_temp=False)


def _source(unit: WriteUnit, database: str, name: str) -> Collection:
    ns = f"{database}.{name}"
    if unit.catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"cannot rename view: {ns}")
    collection = unit.catalog.collection(ns)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Source collection {ns} does not exist")
    if collection.ns == OPLOG_NS:
        raise CommandError(ErrorCode.IllegalOperation, "can't rename live oplog while replicating")
    check_writable(collection)
    if name in _NEVER_RENAMED:
        raise CommandError(ErrorCode.IllegalOperation, f"renaming {name} collection is not allowed")
    if collection.is_timeseries:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"cannot rename view: {ns}")
    if collection.is_raw:
        raise CommandError(ErrorCode.IllegalOperation, f"Cannot rename time-series buckets collection {ns}")
    return collection


def _check_target(unit: WriteUnit, collection: Collection, database: str, name: str) -> None:
    if (database == "local") != (collection.database == "local"):
        raise CommandError(
            ErrorCode.IllegalOperation,
            "Cannot rename collections between a replicated and an unreplicated database",
        )
    check_writable(collection)
    check_no_view(unit.catalog, f"{database}.{name}")


def _check_new_name(unit: WriteUnit, database: str, name: str) -> None:
    try:
        check_new_collection(unit.catalog, database, name)
    except CommandError as error:
        if error.code != ErrorCode.InvalidNamespace:
            raise
        reason = f"error with target namespace: {error.message}"
        raise CommandError(ErrorCode.IllegalOperation, reason) from None
    if name in _NEVER_RENAMED:
        reason = f"error with target namespace: cannot write to {database}.{name}"
        raise CommandError(ErrorCode.IllegalOperation, reason)


def replace_collection(
    unit: WriteUnit,
    collection: Collection,
    name: str,
    replaced: Collection | None,
    *,
    stay_temp: bool = False,
) -> None:
    """Give a collection another name in its database; the caller has checked it.

    ``replaced`` is the collection that has the name now, which is removed.
    """
    number = 0 if replaced is None else unit.count(replaced)[0]
    if replaced is not None:
        unit.remove_collection(replaced)
    unit.remove_collection(collection, keep_records=True)
    options = dict(collection.options)
    if not stay_temp:
        options.pop("temp", None)
    renamed = collection.with_changes(name=name, options=options)
    unit.put_collection(renamed)
    if not collection.is_logged:
        return
    o: dict[str, Any] = {"renameCollection": collection.ns, "to": renamed.ns, "stayTemp": stay_temp}
    if replaced is not None:
        o["dropTarget"] = Binary(replaced.uuid, 4)
    o2 = None if replaced is None else count_document(number, unit.rules)
    unit.log(command(collection.database, o, uuid=collection.uuid, o2=o2))


def copy_name() -> str:
    """A name for the copy of a collection that is renamed to another database."""
    return _temporary_name("renameCollection")


def log_failed_copy(unit: WriteUnit, source: tuple[str, str], database: str, copy: str) -> None:
    """Create a copy and drop it, as a server does that finds a document that cannot be in it."""
    collection = unit.catalog.collection(".".join(source))
    if collection is not None:
        drop_collection(unit, _empty_copy(unit, collection, database, copy))


def _empty_copy(unit: WriteUnit, collection: Collection, database: str, name: str) -> Collection:
    copy = unit.create_collection(database, name, collection.options)
    for index in collection.secondary_indexes:
        copy = unit.add_index(copy, copied_spec(index.spec), logged=index.spec)
    return copy


def _newest(unit: WriteUnit, collection: Collection, limit: int) -> Iterator[bytes]:
    """The documents without the oldest of them, if there are many more than fit."""
    excess = unit.count(collection)[1] - max(2 * limit, _LEAST_COPIED)
    for _, document in unit.records(collection):
        if excess > 0:
            excess -= _CAUTION * len(document)
        else:
            yield document


def _temporary_name(purpose: str) -> str:
    letters = string.ascii_letters + string.digits
    return f"tmp{''.join(secrets.choice(letters) for _ in range(_RANDOM_LETTERS))}.{purpose}"
