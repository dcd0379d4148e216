"""`createIndexes` and `dropIndexes`."""

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Binary

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.store.catalog import ID_INDEX_NAME, Collection, Index
from tailrace.mongod.store.ddl.drop import index_count
from tailrace.mongod.store.ddl.index_spec import index_spec
from tailrace.mongod.store.ddl.key_pattern import index_kind
from tailrace.mongod.store.ddl.lookup import check_writable, existing_collection
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.ddl.timeseries_indexes import bucket_spec, shown_spec
from tailrace.mongod.store.shell_notation import shell
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

MAX_INDEXES: Final = 64
_NOT_COMPARED: Final = frozenset({"v", "name", "background", "ns", "hidden"})
_IDENTITY: Final = ("key", "collation", "partialFilterExpression", "unique", "sparse", "wildcardProjection")


@dataclass(frozen=True, slots=True)
class CreatedIndexes:
    """The result of createIndexes."""

    before: int
    after: int
    created_collection: bool
    failure: CommandError | None = None
    """Why the build was aborted; the abort is logged, so the job itself must succeed."""


def create_indexes(
    unit: UnitOfWork,
    database: str,
    name: str,
    specs: Sequence[Mapping[str, Any]],
    *,
    ignore_unknown: bool = False,
) -> CreatedIndexes:
    """Create the missing indexes, and the collection first if it does not exist.

    An index on a collection with documents is logged as a build: its start, and its end or the cause of its
    failure. A transaction has no builds; its unit refuses indexes on collections it has not created.
    """
    collection, created = _collection_for(unit, database, name)
    before = index_count(collection)
    missing = missing_indexes(collection, specs, ignore_unknown=ignore_unknown)
    if not missing:
        return CreatedIndexes(before, before, created)
    if isinstance(unit, WriteUnit):
        unit.check_unused(collection)
        if not collection.is_logged or unit.count(collection)[0]:
            failure = _build(unit, collection, missing)
            after = before if failure is not None else before + len(missing)
            return CreatedIndexes(before, after, created, failure)
    for spec in missing:
        collection = unit.add_index(collection, spec)
    return CreatedIndexes(before, before + len(missing), created)


def missing_indexes(
    collection: Collection, specs: Sequence[Mapping[str, Any]], *, ignore_unknown: bool
) -> list[dict[str, Any]]:
    """The complete specifications of those that do not exist yet; raises if one cannot be created."""
    known = [dict(index.spec) for index in collection.indexes]
    missing: list[dict[str, Any]] = []
    for given in specs:
        spec = index_spec(collection, given, ignore_unknown=ignore_unknown)
        if collection.is_timeseries:
            spec = bucket_spec(collection, spec)
        if spec["name"] == ID_INDEX_NAME or _is_known(spec, known):
            continue
        if index_kind(spec["key"]) == "text" and any(index_kind(other["key"]) == "text" for other in known):
            raise CommandError(
                ErrorCode.CannotCreateIndex,
                "only one text index per collection allowed, found existing text index",
            )
        known.append(spec)
        missing.append(spec)
    if len(known) > MAX_INDEXES:
        raise CommandError(
            ErrorCode.CannotCreateIndex,
            f"add index fails, too many indexes for {collection.ns} key:{shell(missing[-1]['key'])}",
        )
    return missing


def drop_indexes(unit: WriteUnit, database: str, name: str, which: Any) -> int:
    """Drop indexes by name, names, key or `*` (all but the one on `_id`); returns their former number."""
    collection = existing_collection(unit.catalog, database, name)
    check_writable(collection)
    unit.check_unused(collection)
    before = index_count(collection)
    for index in chosen_indexes(collection, which):
        collection = unit.catalog.collection(collection.ns) or collection
        drop_index(unit, collection, index)
    return before


def drop_index(unit: WriteUnit, collection: Collection, index: Index) -> None:
    """Drop one index and log it with its specification."""
    kept = tuple(other for other in collection.indexes if other is not index)
    unit.put_collection(collection.with_changes(indexes=kept))
    unit.discard("index", index.ident)
    if collection.is_logged:
        unit.log(
            command(
                collection.database,
                {"dropIndexes": collection.name, "index": index.name},
                uuid=collection.uuid,
                o2=documents.encode(dict(index.spec)),
                is_timeseries=collection.is_timeseries,
            )
        )


def _collection_for(unit: UnitOfWork, database: str, name: str) -> tuple[Collection, bool]:
    ns = f"{database}.{name}"
    if unit.catalog.collection(ns) is None and unit.catalog.view(ns) is None:
        check_new_collection(unit.catalog, database, name)
        return unit.create_collection(database, name), True
    collection = existing_collection(unit.catalog, database, name)
    check_writable(collection)
    return collection, False


def _is_known(spec: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the index exists already; raises if another one conflicts with it."""
    for other in known:
        is_same = _identity(spec) == _identity(other)
        if other["name"] == spec["name"]:
            if not is_same:
                raise CommandError(
                    ErrorCode.IndexKeySpecsConflict,
                    "An existing index has the same name as the requested index. When index names are not "
                    "specified, they are auto generated and can cause conflicts. Requested index: "
                    f"{shell(spec)}, existing index: {shell(other)}",
                )
            if _options(spec) != _options(other):
                raise CommandError(
                    ErrorCode.IndexOptionsConflict,
                    "An equivalent index already exists with the same name but different options. "
                    f"Requested index: {shell(spec)}, existing index: {shell(other)}",
                )
            return True
    for other in known:
        if _identity(spec) == _identity(other):
            if _options(spec) != _options(other):
                raise CommandError(
                    ErrorCode.IndexOptionsConflict,
                    "An equivalent index already exists with a different name and options. Requested index: "
                    f"{shell(spec)}, existing index: {shell(other)}",
                )
            raise CommandError(
                ErrorCode.IndexOptionsConflict,
                f"Index already exists with a different name: {other['name']}",
            )
    return False


def _identity(spec: Mapping[str, Any]) -> list[Any]:
    """The fields that make two indexes equivalent; a collection may have only one of each."""
    key = [(path, direction) for path, direction in spec["key"].items()]
    return [key, *(spec.get(field) for field in _IDENTITY[1:])]


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in spec.items() if option not in _NOT_COMPARED}


def _build(
    unit: WriteUnit, collection: Collection, specs: Sequence[Mapping[str, Any]]
) -> CommandError | None:
    """Build new indexes from all documents; on an error, leave everything unchanged and return it."""
    build = {"indexBuildUUID": Binary(uuids.uuid4().bytes, 4), "indexes": [dict(spec) for spec in specs]}
    _log_build(unit, collection, "startIndexBuild", build)
    indexes = [Index(unit.new_ident(), spec) for spec in specs]
    try:
        for key, document in unit.records(collection):
            for index in indexes:
                unit.add_to_index(collection, index, key, document)
    except CommandError as error:
        for index in indexes:
            unit.discard("index", index.ident)
        cause = {"ok": False, "code": error.code, "codeName": error.code_name, "errmsg": error.message}
        _log_build(unit, collection, "abortIndexBuild", {**build, "cause": cause})
        return error
    unit.put_collection(collection.with_changes(indexes=(*collection.indexes, *indexes)))
    _log_build(unit, collection, "commitIndexBuild", build)
    return None


def _log_build(unit: WriteUnit, collection: Collection, name: str, build: Mapping[str, Any]) -> None:
    if collection.is_logged:
        o = {name: collection.name, **build}
        unit.log(
            command(collection.database, o, uuid=collection.uuid, is_timeseries=collection.is_timeseries)
        )


def chosen_indexes(collection: Collection, which: Any) -> list[Index]:
    """The indexes that dropIndexes names by a name, names, a key or `*`; raises if one does not exist."""
    if which == "*":
        return [index for index in collection.indexes if not index.is_id]
    if isinstance(which, str):
        return [_by_name(collection, which)]
    if isinstance(which, list):
        return [_by_name(collection, name) for name in dict.fromkeys(which)]
    return [_by_key(collection, which)]


def _by_name(collection: Collection, name: str) -> Index:
    index = collection.index(name)
    is_clustered = collection.is_clustered and name == _clustered_name(collection)
    if is_clustered or (index is not None and index.is_id):
        raise CommandError(
            ErrorCode.InvalidOptions,
            "cannot drop the clustered index" if is_clustered else "cannot drop _id index",
        )
    if index is None:
        raise CommandError(ErrorCode.IndexNotFound, f"index not found with name [{name}]")
    return index


def _clustered_name(collection: Collection) -> str | None:
    spec = collection.options["clusteredIndex"]
    return spec["name"] if isinstance(spec, Mapping) else None


def _by_key(collection: Collection, key: Mapping[str, Any]) -> Index:
    found = [
        index for index in collection.indexes if list(shown_spec(index)["key"].items()) == list(key.items())
    ]
    if not found:
        raise CommandError(ErrorCode.IndexNotFound, f"can't find index with key: {shell(key)}")
    if len(found) > 1:
        raise CommandError(
            ErrorCode.AmbiguousIndexKeyPattern,
            f"{len(found)} indexes found for key pattern {shell(key)}, identify by name instead",
        )
    return _by_name(collection, found[0].name)
