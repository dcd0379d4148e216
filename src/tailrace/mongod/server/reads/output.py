"""Write the results of a pipeline to a collection: `$out` and `$merge`."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from bson import ObjectId

from tailrace.bson.documents import decode, encode
from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import MergeTarget, OutTarget
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.namespaces import Namespace, existing_collection
from tailrace.mongod.server.writes.specs import UpdateSpec
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.server.writes.unit import rehearsed_pace
from tailrace.mongod.store.catalog import TEMPORARY_OUTPUT, Catalog, Collection
from tailrace.mongod.store.ddl.collection_options import in_catalog_order
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.drop import drop_collection
from tailrace.mongod.store.ddl.index_spec import copied_spec
from tailrace.mongod.store.ddl.rename import rename_collection
from tailrace.mongod.store.ddl.timeseries import create_timeseries, drop_definition
from tailrace.mongod.store.job_pace import WritePace
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.pacing import with_ticks
from tailrace.query.missing import MISSING

T = TypeVar("T")
_Statement: TypeAlias = bytes | UpdateSpec | CommandError
_WRITTEN_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 256 << 10
_NO_MATCH: Final = ErrorCode.MergeStageNoMatchingDocument
_OPERATORS: Final = {"merge": "$set", "keepExisting": "$setOnInsert"}


def check_output(catalog: Catalog, target: OutTarget | MergeTarget) -> None:
    """Refuse an invalid target, before anything is computed."""
    namespace = Namespace(target.database, target.collection)
    if isinstance(target, MergeTarget):
        # A view is refused when the first result is to be written.
        is_view = catalog.view(str(namespace)) is not None
        _check_unique(None if is_view else existing_collection(catalog, namespace), target, namespace)
        return
    collection = existing_collection(catalog, namespace)
    if collection is None:
        return
    if collection.is_capped:
        raise CommandError(17152, f"namespace '{namespace}' is capped so it can't be used for $out")
    if collection.is_timeseries != (target.timeseries is not None) and target.timeseries is not None:
        raise CommandError(7268700, f"{namespace} is not a time-series collection, as $out wants it to be")


class ResultWriter(ABC):
    """Writes the results of a pipeline to the target of `$out` or `$merge`."""

    @abstractmethod
    async def write(
        self,
        context: Context,
        target: OutTarget | MergeTarget,
        documents: Iterator[bytes],
        *,
        bypasses_validation: bool,
    ) -> None:
        """Write the results, which are computed meanwhile; ``context`` is the aggregation's."""


class StoreResultWriter(ResultWriter):
    """Writes results into one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(
        self,
        context: Context,
        target: OutTarget | MergeTarget,
        documents: Iterator[bytes],
        *,
        bypasses_validation: bool,
    ) -> None:
        store = self._store
        if isinstance(target, OutTarget):
            await write_out(context, store, target, documents, bypasses_validation=bypasses_validation)
        else:
            noted = _noting_writes(context, documents)
            await write_merge(context, store, target, noted, bypasses_validation=bypasses_validation)


def _noting_writes(context: Context, documents: Iterator[bytes]) -> Iterator[bytes]:
    for document in documents:
        context.has_written = True
        yield document


async def write_out(
    context: Context,
    store: Store,
    target: OutTarget,
    documents: Iterator[bytes],
    *,
    bypasses_validation: bool,
) -> None:
    """Replace the documents of a collection by the results; options and indexes stay.

    The results are written to a temporary collection, which is renamed at the end; after an error it is
    dropped.
    """
    replaced = store.catalog.collection(f"{target.database}.{target.collection}")
    if target.timeseries is not None or (replaced is not None and replaced.is_timeseries):
        held = list(documents)
        await _write(context, store, lambda unit: _out_series(unit, context, target, held))
        context.has_written = True
        return

    def begin(unit: WriteUnit) -> tuple[Collection | None, Namespace]:
        check_output(unit.catalog, target)
        replaced = unit.catalog.collection(f"{target.database}.{target.collection}")
        return replaced, _temporary(unit, target, replaced)

    before, temporary = await _write(context, store, begin)
    try:
        while piece := _next_piece(context, documents):

            def insert(unit: WriteUnit, piece: Sequence[bytes] = piece) -> CommandError | None:
                runner = StatementRunner(unit, context, bypasses_validation=bypasses_validation)
                return _first_failure(runner.insert, [(temporary, document) for document in piece])

            failure = await _write(context, store, insert)
            if failure is not None:
                raise failure
        await _write(context, store, lambda unit: _put_in_place(unit, target, before, temporary))
        context.has_written = True
        if before is None:
            context.created[f"{target.database}.{target.collection}"] = None
    except BaseException:
        await store.write(lambda unit: _drop_temporary(unit, temporary), pace=WritePace(is_long=True))
        raise


async def _write(context: Context, store: Store, work: Callable[[WriteUnit], T]) -> T:
    """Run a job of an aggregation that writes; it is interrupted only between two of them."""
    context.check_deadline()
    context.is_interruptible = False
    pace = WritePace(context.check_deadline, is_long=True)
    return await store.write(work, deadline=context.deadline, waiting=context.waiting, pace=pace)


def _next_piece(context: Context, documents: Iterator[bytes]) -> list[bytes]:
    """Compute the next results, as many as a job stores quickly."""
    piece: list[bytes] = []
    size = 0
    with context.computing():
        for document in documents:
            piece.append(document)
            size += len(document)
            if len(piece) >= _WRITTEN_AT_ONCE or size >= _BYTES_AT_ONCE:
                break
    return piece


def _put_in_place(
    unit: WriteUnit, target: OutTarget, before: Collection | None, temporary: Namespace
) -> None:
    """Give the temporary collection its name, unless the one that it replaces has changed."""
    ns = f"{target.database}.{target.collection}"
    now = unit.catalog.collection(ns)
    if _options(before) != _options(now):
        reason = f"collection options of target collection {ns} changed during processing."
        raise CommandError(ErrorCode.CommandFailed, reason)
    if _indexes(before) != _indexes(now):
        reason = f"indexes of target collection {ns} changed during processing."
        raise CommandError(ErrorCode.CommandFailed, reason)
    source = (target.database, temporary.name)
    rename_collection(unit, source, (target.database, target.collection), drop_target=True)


def _options(collection: Collection | None) -> dict[str, Any]:
    return {} if collection is None else dict(collection.options)


def _indexes(collection: Collection | None) -> list[Mapping[str, Any]]:
    return [] if collection is None else [index.spec for index in collection.secondary_indexes]


def _drop_temporary(unit: WriteUnit, temporary: Namespace) -> None:
    collection = unit.catalog.collection(str(temporary))
    if collection is not None:
        drop_collection(unit, collection)


def _out_series(unit: WriteUnit, context: Context, target: OutTarget, documents: Sequence[bytes]) -> None:
    """Write a time series, which cannot be renamed, in one job."""
    check_output(unit.catalog, target)
    replaced = unit.catalog.collection(f"{target.database}.{target.collection}")
    if replaced is not None and replaced.is_timeseries and not unit.rules.series_output:
        raise _is_series(Namespace(target.database, target.collection))
    _replace_timeseries(unit, target, replaced)
    runner = StatementRunner(unit, context)
    for document in documents:
        runner.insert(Namespace(target.database, target.collection), document)


def _temporary(unit: WriteUnit, target: OutTarget, replaced: Collection | None) -> Namespace:
    """Create an empty collection with the options and indexes of the one to be replaced."""
    name = f"{TEMPORARY_OUTPUT}{uuid.uuid4()}"
    options = {} if replaced is None else dict(replaced.options)
    made = unit.create_collection(target.database, name, in_catalog_order({"temp": True, **options}))
    for index in () if replaced is None else replaced.indexes:
        if not index.is_id:
            made = unit.add_index(made, copied_spec(index.spec))
    return Namespace(target.database, name)


def _replace_timeseries(unit: WriteUnit, target: OutTarget, replaced: Collection | None) -> None:
    """Drop and create a time series, which cannot be renamed, in the same commit."""
    options: Mapping[str, Any] = {"timeseries": dict(target.timeseries or {})}
    if replaced is not None:
        unit.check_unused(replaced)
        drop_definition(unit, replaced)
        drop_collection(unit, replaced)
        create_timeseries(unit, target.database, target.collection, replaced.options)
    else:
        create_collection(unit, target.database, target.collection, options)


async def write_merge(
    context: Context,
    store: Store,
    target: MergeTarget,
    documents: Iterator[bytes],
    *,
    bypasses_validation: bool,
) -> None:
    """Merge each result into its document; of results that fail, the others of their batch stay written."""
    while piece := _next_piece(context, documents):
        batch = [_statement(target, decode(raw)) for raw in with_ticks(piece)]

        def work(unit: UnitOfWork, batch: Sequence[_Statement] = batch) -> CommandError | None:
            runner = StatementRunner(unit, context, bypasses_validation=bypasses_validation)
            return _merge_all(runner, target, batch)

        context.is_interruptible = False
        pace = replace(rehearsed_pace(context, store, work), is_long=True)
        failure = await store.write(work, deadline=context.deadline, waiting=context.waiting, pace=pace)
        if failure is not None:
            raise failure


def _merge_all(
    runner: StatementRunner, target: MergeTarget, batch: Sequence[_Statement]
) -> CommandError | None:
    """Merge results, of which one that fails does not stop the others; returns the first error."""
    namespace = Namespace(target.database, target.collection)
    try:
        collection = existing_collection(runner.unit.catalog, namespace)
        _check_unique(collection, target, namespace)
        if collection is not None and collection.is_timeseries:
            raise _is_series(namespace)
    except CommandError as error:
        return error
    return _first_failure(_merge, [(runner, namespace, target, statement) for statement in batch])


def _first_failure(write: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> CommandError | None:
    """Write all that can be written, and logged; returns the first error."""
    first: CommandError | None = None
    for arguments in calls:
        try:
            write(*arguments)
        except CommandError as error:
            first = first or error
    return first


def _statement(target: MergeTarget, document: dict[str, Any]) -> _Statement:
    """What a result does to the collection: the document to insert, an update, or the error that it has."""
    try:
        document = identified(target, document)
        return encode(document) if target.when_matched == "fail" else _update_spec(target, document)
    except CommandError as error:
        return error


def _merge(runner: StatementRunner, namespace: Namespace, target: MergeTarget, statement: _Statement) -> None:
    if isinstance(statement, CommandError):
        raise statement
    if isinstance(statement, bytes):
        runner.insert(namespace, statement)
        return
    outcome = runner.update(namespace, statement)
    if not outcome.matched and target.when_not_matched == "fail":
        reason = (
            "$merge could not find a matching document in the target collection for at least one "
            "document in the source collection"
        )
        raise CommandError(_NO_MATCH, reason)


def identified(target: MergeTarget, document: dict[str, Any]) -> dict[str, Any]:
    """A result with an `_id`; if `on` needs it and there is none, a new one."""
    if "_id" not in document and "_id" in target.on:
        return {"_id": ObjectId(), **document}
    return document


def _update_spec(target: MergeTarget, document: dict[str, Any]) -> UpdateSpec:
    query = {path: {"$eq": _joined_value(document, path)} for path in target.on}
    inserts = target.when_not_matched == "insert"
    if target.when_matched == "replace":
        return UpdateSpec(query, document, upsert=inserts)
    if isinstance(target.when_matched, str):
        return UpdateSpec(query, {_OPERATORS[target.when_matched]: document}, upsert=inserts)
    stages = list(target.when_matched)
    constants = {
        name: value for name, value in target.variables_for(document).items() if value is not MISSING
    }
    return UpdateSpec(query, stages, upsert=inserts, constants=constants, supplies_document=inserts)


def _joined_value(document: Mapping[str, Any], path: str) -> Any:
    """The value of an `on` field of a result."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
        if isinstance(value, list):
            raise CommandError(51185, f"$merge write error: 'on' field '{path}' cannot be an array")
    if value is MISSING or value is None or isinstance(value, Undefined):
        raise CommandError(
            51132, f"$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
        )
    return value


def _is_series(namespace: Namespace) -> CommandError:
    reason = f"Namespace {namespace} is a timeseries collection"
    return CommandError(ErrorCode.CommandNotSupportedOnView, reason)


def _check_unique(collection: Collection | None, target: MergeTarget, namespace: Namespace) -> None:
    """Refuse fields without a unique index: a result must match one document at most."""
    if set(target.on) == {"_id"}:
        return
    for index in () if collection is None else collection.indexes:
        is_whole = "partialFilterExpression" not in index.spec and "collation" not in index.spec
        if index.unique and is_whole and {path for path, _ in index.key} == set(target.on):
            return
    reason = (
        f"Cannot find index to verify that join fields will be unique: {', '.join(target.on)} in {namespace}"
    )
    raise CommandError(51183, reason)
