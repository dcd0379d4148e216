"""Create, change and drop views, which are documents in the `system.views` of their database.

They are logged as inserts, replacements and deletes there; there is no command entry for a view.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bson import DatetimeMS, Timestamp

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import PipelineContext, compile_pipeline
from tailrace.mongod.store.catalog import VIEWS, Catalog, Collection, View
from tailrace.mongod.store.ddl.names import SYSTEM_PREFIX, check_collection_name, check_new_collection
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.query.collation import Collation

MAX_VIEW_DEPTH: Final = 20
_WRITING_STAGES: Final = ("$out", "$merge")
# A definition is compiled only to find its faults, so these values do not matter.
_VARIABLES: Final[Mapping[str, Any]] = {
    "NOW": DatetimeMS(0),
    "CLUSTER_TIME": Timestamp(0, 1),
    "USER_ROLES": [],
}


def create_view(
    unit: WriteUnit,
    database: str,
    name: str,
    view_on: str,
    pipeline: Sequence[Any],
    collation: Mapping[str, Any] | None = None,
) -> CommandError | None:
    """Create a view; does nothing if it exists with the same definition and the release allows that.

    Returns why it cannot be created: `system.views` is made before the definition is checked, and stays, so
    the job itself must succeed.
    """
    check_new_collection(unit.catalog, database, name)
    if name.startswith(SYSTEM_PREFIX):
        raise CommandError(ErrorCode.InvalidNamespace, f"View name cannot start with 'system.': {name}")
    if not view_on:
        raise CommandError(ErrorCode.BadValue, "'viewOn' cannot be empty")
    definitions = unit.catalog.collection(f"{database}.{VIEWS}") or unit.create_collection(database, VIEWS)
    try:
        view = _new_view(unit, database, name, view_on, pipeline, collation)
    except CommandError as error:
        return error
    if unit.catalog.view(view.ns) is None:
        unit.insert(definitions, definition_of(view))
        unit.publish(unit.catalog.with_view(view))
    return None


def _new_view(
    unit: WriteUnit,
    database: str,
    name: str,
    view_on: str,
    pipeline: Sequence[Any],
    collation: Mapping[str, Any] | None,
) -> View:
    ns = f"{database}.{name}"
    if unit.catalog.collection(ns) is not None:
        raise CommandError(ErrorCode.NamespaceExists, f"Collection already exists. NS: {ns}")
    existing = unit.catalog.view(ns)
    if existing is not None and unit.rules.repeats_are_errors:
        raise CommandError(ErrorCode.NamespaceExists, f"A view already exists. NS: {ns}")
    view = _checked(unit.catalog, database, name, view_on, pipeline, collation)
    if existing not in (None, view):
        raise CommandError(
            ErrorCode.NamespaceExists, f"A view already exists. NS: {ns}, with another definition"
        )
    return view


def modify_view(
    unit: WriteUnit, view: View, view_on: str | None = None, pipeline: Sequence[Any] | None = None
) -> None:
    """Replace a view's definition; None means no change."""
    changed = _checked(
        unit.catalog,
        view.database,
        view.name,
        view.view_on if view_on is None else view_on,
        view.pipeline if pipeline is None else pipeline,
        view.collation,
    )
    definitions, key, before = _stored(unit, view)
    after = definition_of(changed)
    unit.update(definitions, key, before, after, after)
    unit.publish(unit.catalog.with_view(changed))


def drop_view(unit: WriteUnit, database: str, name: str) -> None:
    view = unit.catalog.view(f"{database}.{name}")
    if view is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"there is no view {database}.{name}")
    definitions, key, before = _stored(unit, view)
    unit.delete(definitions, key, before)
    unit.publish(unit.catalog.without_view(view.ns))


def forget_views(unit: WriteUnit, database: str) -> None:
    """Remove the views of a database from the catalog after their definitions were dropped."""
    catalog = unit.catalog
    for view in list(catalog.views(database)):
        catalog = catalog.without_view(view.ns)
    unit.publish(catalog)


def definition_of(view: View) -> bytes:
    """The document in `system.views`."""
    definition: dict[str, Any] = {
        "_id": view.ns,
        "viewOn": view.view_on,
        "pipeline": [dict(stage) for stage in view.pipeline],
    }
    if view.collation is not None:
        definition["collation"] = dict(view.collation)
    return documents.encode(definition)


def _stored(unit: WriteUnit, view: View) -> tuple[Collection, bytes, bytes]:
    definitions = unit.catalog.collection(f"{view.database}.{VIEWS}")
    by_id = id_key_of(documents.encode({"_id": view.ns}))
    found = None if definitions is None or by_id is None else unit.find_id(definitions, by_id)
    if definitions is None or found is None:
        raise CommandError(ErrorCode.InvalidViewDefinition, f"the definition of {view.ns} is missing")
    return definitions, *found


def _checked(
    catalog: Catalog,
    database: str,
    name: str,
    view_on: str,
    pipeline: Sequence[Any],
    collation: Mapping[str, Any] | None,
) -> View:
    if not view_on:
        raise CommandError(ErrorCode.BadValue, "'viewOn' cannot be empty")
    check_collection_name(database, view_on)
    if "$" in view_on:
        raise CommandError(ErrorCode.InvalidNamespace, f"invalid name for 'viewOn': {view_on}")
    parsed = None if collation is None else Collation.parse(collation)
    foreign = _check_pipeline(f"{database}.{name}", view_on, pipeline, parsed)
    shown = None if parsed is None else parsed.to_document()
    view = View(database, name, view_on, tuple(pipeline), shown)
    _check_graph(catalog, view, [view_on, *foreign], [view.ns])
    check_dependents(catalog, view)
    return view


def _check_pipeline(ns: str, view_on: str, pipeline: Sequence[Any], collation: Collation | None) -> list[str]:
    """Refuse a pipeline that a view cannot have; returns the other collections it reads."""
    for position, stage in enumerate(pipeline):
        name = next(iter(stage), "") if isinstance(stage, Mapping) else ""
        if name == "$changeStream":
            raise CommandError(
                ErrorCode.OptionNotSupportedOnView, "$changeStream cannot be used in a view definition"
            )
        if name in _WRITING_STAGES:
            raise CommandError(
                ErrorCode.OptionNotSupportedOnView,
                f"The aggregation stage {name} in location {position} of the pipeline cannot be used in the "
                f"view definition of {ns} because it writes to disk",
            )
    database = ns.partition(".")[0]
    context = PipelineContext(database, view_on, dict(_VARIABLES), collation)
    compiled = compile_pipeline(pipeline, context)
    if not compiled.reads_collection:
        raise CommandError(
            ErrorCode.InvalidNamespace, f"the pipeline of the view {ns} has to read the collection it is on"
        )
    return sorted(collection for other, collection in compiled.foreign if other == database)


def _check_graph(catalog: Catalog, view: View, sources: Sequence[str], path: list[str]) -> None:
    """Refuse a view on views with a cycle, a depth above the limit or different collations."""
    if len(path) > MAX_VIEW_DEPTH:
        raise CommandError(
            ErrorCode.ViewDepthLimitExceeded,
            f"View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}",
        )
    for source in sources:
        ns = f"{view.database}.{source}"
        if ns in path:
            circle = " => ".join([*path, ns])
            raise CommandError(ErrorCode.GraphContainsCycle, f"View cycle detected: {circle}")
        below = catalog.view(ns)
        if below is not None:
            _check_collation(view, ns, below.collation)
            _check_graph(catalog, view, list(_sources(below)), [*path, ns])
            continue
        collection = catalog.collection(ns)
        if collection is not None and collection.is_timeseries:  # a view on its buckets
            _check_collation(view, ns, collection.options.get("collation"))


def _check_collation(view: View, ns: str, collation: Mapping[str, Any] | None) -> None:
    if view.collation != collation:
        raise CommandError(
            ErrorCode.OptionNotSupportedOnView, f"View {view.ns} has conflicting collation with view {ns}"
        )


def check_dependents(catalog: Catalog, view: View) -> None:
    """Refuse a view with another collation than views that read it, which were created before it."""
    for above in catalog.views(view.database):
        if above.ns != view.ns and above.collation != view.collation and view.name in _sources(above):
            raise CommandError(
                ErrorCode.OptionNotSupportedOnView,
                f"View {view.ns} has a collation that does not match the collation of view {above.ns}",
            )


def _sources(view: View) -> Iterator[str]:
    yield view.view_on
    context = PipelineContext(view.database, view.view_on, dict(_VARIABLES))
    for database, collection in sorted(compile_pipeline(view.pipeline, context).foreign):
        if database == view.database:
            yield collection
