"""`createIndexes` and `dropIndexes`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson import documents
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.store.catalog import ID_INDEX_NAME, Collection, Index
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.drop import index_count
from tailrace.mongod.store.ddl.index_spec import (
    check_collation,
    check_expiry,
    index_spec,
    parse_index,
)
from tailrace.mongod.store.ddl.key_pattern import index_kind
from tailrace.mongod.store.ddl.lookup import check_writable, existing_collection
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.ddl.timeseries_indexes import bucket_spec, shown_spec
from tailrace.mongod.store.indexes.index_build import BuildScan, abort_build, begin_build
from tailrace.mongod.store.transactions.locks import Blocked
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
    some_exist: bool
    """Whether some of the wanted indexes existed before."""
    failure: CommandError | None = None
    """Why the build was aborted; the abort is logged, so the job itself must succeed."""
    scan: BuildScan | None = None
    """What is still to be read for the build."""


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
    if unit.catalog.collection(f"{database}.{name}") is None:
        failure = _check_for_new(unit, database, name, specs, ignore_unknown=ignore_unknown)
        if failure is not None:
            return CreatedIndexes(0, 0, False, False, failure)
    collection, created = _collection_for(unit, database, name)
    if collection.build is not None and isinstance(unit, WriteUnit):
        if not collection.build.ended.is_set():
            raise Blocked(collection.build)  # one after the other: it may build the same
        abort_build(unit, collection, CommandError(ErrorCode.IndexBuildAborted, "the index build has failed"))
        collection = collection.with_changes(build=None)
    before = index_count(collection)
    # A transaction can only add indexes to a collection that it has created.
    has_build = isinstance(unit, WriteUnit) and (not collection.is_logged or unit.count(collection)[0] > 0)
    missing = missing_indexes(
        collection, specs, unit.rules, ignore_unknown=ignore_unknown, has_build=has_build
    )
    some_exist = len(missing) < len(specs)
    if not missing:
        return CreatedIndexes(before, before, created, some_exist)
    if isinstance(unit, WriteUnit):
        unit.check_unused(collection)
        if has_build:
            begun = begin_build(unit, collection, missing)
            failure = begun if isinstance(begun, CommandError) else None
            scan = begun if isinstance(begun, BuildScan) else None
            after = before if failure is not None else before + len(missing)
            return CreatedIndexes(before, after, created, some_exist, failure, scan)
    for spec in missing:
        collection = unit.add_index(collection, spec)
    return CreatedIndexes(before, before + len(missing), created, some_exist)


def _check_for_new(
    unit: UnitOfWork,
    database: str,
    name: str,
    specs: Sequence[Mapping[str, Any]],
    *,
    ignore_unknown: bool,
) -> CommandError | None:
    """Check the indexes of a collection that does not exist yet.

    Raises for specifications that are wrong in themselves. An error that is returned comes after the database
    was opened: it is there, and can be dropped, although it gets no collection.
    """
    nothing = Collection(database, name, b"", 0, {}, ())
    parsed = _parsed(nothing, specs, unit.rules, ignore_unknown=ignore_unknown)
    if unit.catalog.view(nothing.ns) is not None:
        return None  # it is refused next
    for fields in parsed:
        check_expiry(fields)
    if not isinstance(unit, WriteUnit):
        return None
    check_new_collection(unit.catalog, database, name)
    unit.publish(unit.catalog.with_opened(database))
    try:
        missing_indexes(nothing, specs, unit.rules, ignore_unknown=ignore_unknown, has_build=False)
    except CommandError as error:
        return error
    return None


def missing_indexes(
    collection: Collection,
    specs: Sequence[Mapping[str, Any]],
    rules: CatalogRules,
    *,
    ignore_unknown: bool,
    has_build: bool,
) -> list[dict[str, Any]]:
    """The complete specifications of those that do not exist yet; raises if one cannot be created.

    Each check is made for all of them before the next one.
    """
    parsed = _parsed(collection, specs, rules, ignore_unknown=ignore_unknown)
    for fields in parsed:
        check_collation(collection, fields)
    existing = [dict(index.spec) for index in collection.indexes]
    missing = [
        spec
        for spec in (index_spec(collection, fields, rules) for fields in parsed)
        if spec["name"] != ID_INDEX_NAME and not _is_known(spec, existing)
    ]
    for spec in missing:
        check_expiry(spec)
    for number, spec in enumerate(missing):
        _check_addition(collection, spec, existing, missing[:number], has_build=has_build)
    return missing


def _check_addition(
    collection: Collection,
    spec: Mapping[str, Any],
    existing: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    *,
    has_build: bool,
) -> None:
    """Refuse an index that cannot be built beside those that exist and those ``before`` it in the command."""
    if _is_known(spec, before):
        if has_build:
            reason = "Cannot build two identical indexes. Try again without duplicate indexes."
            raise CommandError(ErrorCode.OperationFailed, reason)
        raise CommandError(ErrorCode.IndexAlreadyExists, f"Identical index already exists: {spec['name']}")
    others = (*existing, *before)
    if len(others) >= MAX_INDEXES:
        reason = f"add index fails, too many indexes for {collection.ns} key:{shell(spec['key'])}"
        raise CommandError(ErrorCode.CannotCreateIndex, reason)
    kind = index_kind(spec["key"])
    if kind == "text" and any(index_kind(other["key"]) == "text" for other in others):
        raise CommandError(
            ErrorCode.CannotCreateIndex,
            "only one text index per collection allowed, found existing text index",
        )
    if spec.get("unique") and kind == "hashed":
        raise CommandError(
            16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index."
        )


def _parsed(
    collection: Collection, specs: Sequence[Mapping[str, Any]], rules: CatalogRules, *, ignore_unknown: bool
) -> list[dict[str, Any]]:
    if collection.is_timeseries:
        specs = [
            bucket_spec(collection, given) if isinstance(given.get("key"), Mapping) else given
            for given in specs
        ]
    return [parse_index(collection, given, rules, ignore_unknown=ignore_unknown) for given in specs]


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
        is_same = _is_same(spec, other)
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
        if _is_same(spec, other):
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


def _is_same(spec: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _identity(spec) == _identity(other)


def _identity(spec: Mapping[str, Any]) -> list[Any]:
    """The fields that make two indexes equivalent; a collection may have only one of each."""
    key = [(path, direction) for path, direction in spec["key"].items()]
    return [key, *(spec.get(field) or None for field in _IDENTITY[1:])]


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        option: value for option, value in spec.items() if option not in _NOT_COMPARED and value is not False
    }


def is_all(which: Any) -> bool:
    """Whether dropIndexes names all indexes."""
    return which == "*" or (isinstance(which, list) and which[:1] == ["*"])


def chosen_indexes(collection: Collection, which: Any) -> list[Index]:
    """The indexes that dropIndexes names by a name, names, a key or `*`; raises if one does not exist."""
    if is_all(which):
        return collection.secondary_indexes
    if is_string(which):
        return [_by_name(collection, which)]
    if isinstance(which, list):
        if len(set(which)) < len(which):
            raise CommandError(ErrorCode.IndexNotFound, f"index not found with name [{which[-1]}]")
        return [_by_name(collection, name) for name in which]
    return [_by_key(collection, which)]


def _by_name(collection: Collection, name: str) -> Index:
    index = collection.index(name)
    is_clustered = collection.is_clustered and name == _clustered_name(collection)
    if is_clustered or (index is not None and index.is_id):
        if is_clustered:
            raise CommandError(5979800, "It is illegal to drop the clusteredIndex")
        raise CommandError(ErrorCode.InvalidOptions, "cannot drop _id index")
    if index is None:
        raise CommandError(ErrorCode.IndexNotFound, f"index not found with name [{name}]")
    return index


def _clustered_name(collection: Collection) -> str:
    spec = collection.options["clusteredIndex"]
    return spec["name"] if isinstance(spec, Mapping) else ID_INDEX_NAME


def _by_key(collection: Collection, key: Mapping[str, Any]) -> Index:
    found = [
        index
        for index in collection.indexes
        if list(shown_spec(collection, index)["key"].items()) == list(key.items())
    ]
    if not found:
        if collection.is_clustered and not collection.is_timeseries and dict(key) == {"_id": 1}:
            raise CommandError(5979800, "It is illegal to drop the clusteredIndex")
        raise CommandError(ErrorCode.IndexNotFound, f"can't find index with key: {shell(key)}")
    if len(found) > 1:
        raise CommandError(
            ErrorCode.AmbiguousIndexKeyPattern,
            f"{len(found)} indexes found for key pattern {shell(key)}, identify by name instead",
        )
    return _by_name(collection, found[0].name)
