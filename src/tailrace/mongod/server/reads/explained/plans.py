"""The stages of a plan, in a mongod's order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.mongod.language.aggregation.memory.budget import DEFAULT_LIMIT
from tailrace.mongod.server.dispatch.kinds import is_true
from tailrace.mongod.server.emulation.release import EXPRESS_PLANS, Release
from tailrace.mongod.server.reads.access.access_paths import AccessPath, BucketScan, IdLookup, IndexScan
from tailrace.mongod.server.reads.explained.bounds import IndexBounds, multikey_paths
from tailrace.mongod.server.reads.explained.filters import Predicate, joined, parsed, predicates
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.reader import Reader
from tailrace.query.collation import Collation
from tailrace.query.expressions.operands import is_number


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a plan, with the stage that it reads from."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    filter: Mapping[str, Any] | None = None
    source: "Stage | None" = None

    @property
    def shown(self) -> dict[str, Any]:
        """As `queryPlanner` shows it."""
        found: dict[str, Any] = {"stage": self.name}
        if self.filter:
            found["filter"] = dict(self.filter)
        found |= self.fields
        if self.source is not None:
            found["inputStage"] = self.source.shown
        return found


@dataclass(frozen=True, slots=True)
class Access:
    """How documents are read."""

    scan: Stage
    fetch_filter: Mapping[str, Any] | None = None
    """What is checked on documents after an index scan; None if nothing is fetched."""
    bounds: IndexBounds | None = None
    index: Index | None = None
    arrays: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def is_index_scan(self) -> bool:
        return self.bounds is not None

    @property
    def has_a_key_for_each(self) -> bool:
        """Whether the index has exactly one key for each document within its bounds.

        The scan itself also reads the keys at ends that are excluded.
        """
        if self.bounds is None or self.index is None or any(self.arrays.values()):
            return False
        return self.bounds.are_contiguous(self.index)

    def covers(self, path: str) -> bool:
        """Whether a value can be read from the index."""
        return (
            self.index is not None
            and "collation" not in self.index.spec
            and any(path == name for name, _ in self.index.key)
            and not self.arrays.get(path)
        )


def access(
    path: AccessPath | None,
    query: Mapping[str, Any],
    collation: Collation | None,
    reader: Reader,
    release: Release,
    *,
    is_plain: bool = True,
) -> Access:
    """How a path reads documents; ``is_plain`` if the command has no options that a look-up lacks."""
    if path is None:
        return Access(Stage("EOF"))
    if isinstance(path, IdLookup):
        return _lookup(path, query, collation, reader, release, is_plain=is_plain)
    if isinstance(path, IndexScan):
        return _index_access(path, query, collation, reader, release)
    shown = path.describe(parsed(query))
    if isinstance(path, BucketScan):
        inner = shown["inputStage"]
        source = Stage(inner["stage"], {"direction": inner["direction"]})
        return Access(Stage(shown["stage"], {}, shown.get("filter"), source))
    fields = {name: value for name, value in shown.items() if name not in ("stage", "filter")}
    return Access(Stage(shown["stage"], fields, shown.get("filter")))


def _lookup(
    path: IdLookup,
    query: Mapping[str, Any],
    collation: Collation | None,
    reader: Reader,
    release: Release,
    *,
    is_plain: bool,
) -> Access:
    collection = path.collection
    if collection.is_clustered:
        if release.has(EXPRESS_PLANS):
            return Access(Stage("EXPRESS_CLUSTERED_IXSCAN", {"keyPattern": "{ _id: 1 }"}))
        wanted = next(one.condition[1] for one in predicates(query) if one.path == "_id" and one.condition)
        fields = {"direction": "forward", "minRecord": wanted, "maxRecord": wanted}
        return Access(Stage("CLUSTERED_IXSCAN", fields, parsed(query)))
    if path.is_exact and is_plain:
        if release.has(EXPRESS_PLANS):
            fields = {"keyPattern": "{ _id: 1 }", "indexName": "_id_"}
            return Access(Stage("EXPRESS_IXSCAN", fields))
        return Access(Stage("IDHACK"))
    index = collection.id_index
    assert index is not None
    scan = IndexScan(collection, index, (), is_multikey=False)
    return _index_access(scan, query, collation, reader, release)


def _index_access(
    path: IndexScan, query: Mapping[str, Any], collation: Collation | None, reader: Reader, release: Release
) -> Access:
    index = path.index
    arrays = multikey_paths(reader, path.collection, index)
    is_multikey = not index.is_id and (reader.is_multikey(index) or any(arrays.values()))
    bounds = IndexBounds.of(index, query, collation, is_multikey=is_multikey)
    fields = index_fields(index, is_multikey=is_multikey, arrays=arrays)
    fields["direction"] = "backward" if path.reverse else "forward"
    fields["indexBounds"] = bounds.shown(path, undefined_is_null=not release.has(EXPRESS_PLANS))
    return Access(Stage("IXSCAN", fields), joined(bounds.left), bounds, index, arrays)


def index_fields(index: Index, *, is_multikey: bool, arrays: Mapping[str, list[str]]) -> dict[str, Any]:
    """What every stage shows that reads an index."""
    spec = index.spec
    shown: dict[str, Any] = {"keyPattern": dict(spec["key"]), "indexName": index.name}
    if "collation" in spec:
        shown["collation"] = dict(spec["collation"])
    return shown | {
        "isMultiKey": is_multikey,
        "multiKeyPaths": dict(arrays),
        "isUnique": index.unique,
        "isSparse": bool(spec.get("sparse")),
        "isPartial": "partialFilterExpression" in spec,
        "indexVersion": spec.get("v", 2),
    }


def find_plan(
    found: Access,
    request: FindRequest,
    *,
    needs_sort: bool,
    keeps_limit: bool = True,
    is_write: bool = False,
    sort_memory: int = DEFAULT_LIMIT,
) -> Stage:
    """The stages of a find; a write of one document has no stage for its limit, unless it sorts."""
    kind = _projection_kind(request.projection) if request.projection else None
    is_covered = (
        kind is not None
        and found.is_index_scan
        and not found.fetch_filter
        and _is_covered(found, request.projection)
        and (not needs_sort or all(map(found.covers, request.sort)))
    )
    stage = found.scan
    skip = request.skip
    if found.is_index_scan:
        # Keys are skipped before documents are fetched, unless these have to be checked.
        if skip and not needs_sort and not found.fetch_filter:
            stage, skip = Stage("SKIP", {"skipAmount": skip}, source=stage), 0
        if not is_covered:
            stage = Stage("FETCH", {}, found.fetch_filter, stage)
    projection = None
    if kind is not None:
        name = "PROJECTION_COVERED" if is_covered and kind == "SIMPLE" else f"PROJECTION_{kind}"
        projection = (name, {"transformBy": request.projection})
    if needs_sort:
        # A projection that keeps the sorted fields makes what is sorted smaller.
        if projection is not None and not request.limit and _keeps(request.projection, request.sort):
            stage, projection = Stage(*projection, source=stage), None
        fields: dict[str, Any] = {"sortPattern": request.sort, "memLimit": sort_memory}
        if request.limit:
            fields["limitAmount"] = request.skip + request.limit
        fields["type"] = "default" if is_write else "simple"
        stage = Stage("SORT", fields, source=stage)
    if skip:
        stage = Stage("SKIP", {"skipAmount": skip}, source=stage)
    if projection is not None:
        stage = Stage(*projection, source=stage)
    if request.limit and not needs_sort and keeps_limit:
        stage = Stage("LIMIT", {"limitAmount": request.limit}, source=stage)
    return stage


def _projection_kind(projection: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in projection.items() if name != "_id"}
    is_simple = bool(plain) and all(
        "." not in name and (is_number(value) or isinstance(value, bool)) and is_true(value)
        for name, value in plain.items()
    )
    return "SIMPLE" if is_simple else "DEFAULT"


def _included(projection: Mapping[str, Any]) -> list[str] | None:
    """The paths of a projection that only includes; None for others."""
    paths = [] if not is_true(projection.get("_id", True)) else ["_id"]
    for name, value in projection.items():
        if name == "_id":
            continue
        if not (is_number(value) or isinstance(value, bool)) or not is_true(value):
            return None
        paths.append(name)
    return paths if any(name != "_id" for name in projection) else None


def _is_covered(found: Access, projection: Mapping[str, Any]) -> bool:
    paths = _included(projection)
    return paths is not None and all(map(found.covers, paths))


def _keeps(projection: Mapping[str, Any], sort: Mapping[str, Any]) -> bool:
    paths = _included(projection)
    return paths is not None and all(path in paths for path in sort)


def decided_filter(found: Access) -> dict[str, Any]:
    """The conditions that the bounds of an index decide."""
    decided: tuple[Predicate, ...] = () if found.bounds is None else found.bounds.decided
    return joined(decided)
