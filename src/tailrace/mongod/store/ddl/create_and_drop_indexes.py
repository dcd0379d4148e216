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
from tailrace.mongod.store.ddl.index_spec import check_new_index, index_spec, parse_index
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
        # Specifications that are wrong in themselves are refused first.
        nothing = Collection(database, name, b"", 0, {}, ())
        _parsed(nothing, specs, unit.rules, ignore_unknown=ignore_unknown)
    collection, created = _collection_for(unit, database, name)
    if collection.build is not None and isinstance(unit, WriteUnit):
        if not collection.build.ended.is_set():
            raise Blocked(collection.build)  # one after the other: it may build the same
        abort_build(unit, collection, CommandError(ErrorCode.IndexBuildAborted, "the index build has failed"))
        collection = collection.with_changes(build=None)
    before = index_count(collection)
    missing = missing_indexes(collection, specs, unit.rules, ignore_unknown=ignore_unknown)
    some_exist = len(missing) < len(specs)
    if not missing:
        return CreatedIndexes(before, before, created, some_exist)
    if isinstance(unit, WriteUnit):
        unit.check_unused(collection)
        if not collection.is_logged or unit.count(collection)[0]:
            begun = begin_build(unit, collection, missing)
            failure = begun if isinstance(begun, CommandError) else None
            scan = begun if isinstance(begun, BuildScan) else None
            after = before if failure is not None else before + len(missing)
            return CreatedIndexes(before, after, created, some_exist, failure, scan)
    for spec in missing:
        collection = unit.add_index(collection, spec)
    return CreatedIndexes(before, before + len(missing), created, some_exist)


def missing_indexes(
    collection: Collection, specs: Sequence[Mapping[str, Any]], rules: CatalogRules, *, ignore_unknown: bool
) -> list[dict[str, Any]]:
    """The complete specifications of those that do not exist yet; raises if one cannot be created."""
    known = [dict(index.spec) for index in collection.indexes]
    missing: list[dict[str, Any]] = []
    for fields in _parsed(collection, specs, rules, ignore_unknown=ignore_unknown):
        spec = index_spec(collection, fields)
        if any(_is_same(spec, other) and spec["name"] == other["name"] for other in missing):
            raise CommandError(
                ErrorCode.IndexAlreadyExists, f"Identical index already exists: {spec['name']}"
            )
        if spec["name"] == ID_INDEX_NAME or _is_known(spec, known):
            continue
        if index_kind(spec["key"]) == "text" and any(index_kind(other["key"]) == "text" for other in known):
            raise CommandError(
                ErrorCode.CannotCreateIndex,
                "only one text index per collection allowed, found existing text index",
            )
        check_new_index(collection, spec, rules)
        known.append(spec)
        missing.append(spec)
    if len(known) > MAX_INDEXES:
        raise CommandError(
            ErrorCode.CannotCreateIndex,
            f"add index fails, too many indexes for {collection.ns} key:{shell(missing[-1]['key'])}",
        )
    return missing


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
