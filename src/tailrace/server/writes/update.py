"""The execution of updates: finding, changing, validating, storing, logging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bsonio import raw as rawbson
from tailrace.bsonio.documents import decode_value, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.model.update_diff import compute_diff
from tailrace.query.update import Update, UpdateResult, compile_update
from tailrace.server.context import Context
from tailrace.server.writes.namespaces import collection_to_insert, existing_collection
from tailrace.server.writes.new_document import storable
from tailrace.server.writes.targets import Selection, Target
from tailrace.server.writes.unit import WritingUnit
from tailrace.server.writes.upsert import new_document
from tailrace.server.writes.validation import Validator
from tailrace.server.writes.variables import CommandTime
from tailrace.store.catalog import Collection

_VERSION: Final = 2
"""`$v` of a logged diff"""


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """One update, as update, findAndModify and bulkWrite all have it."""

    query: Mapping[str, Any]
    update: Any
    multi: bool = False
    upsert: bool = False
    array_filters: Sequence[Any] = ()
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None
    constants: Mapping[str, Any] | None = None
    """`c`: variables for this statement's pipeline alone"""
    supplies_document: bool = False
    """`upsertSupplied`: the document to insert is the constant `new`"""


@dataclass(slots=True)
class UpdateOutcome:
    """What an update did."""

    matched: int = 0
    modified: int = 0
    upserted: bytes | None = None
    """The document that was inserted"""
    before: bytes | None = None
    """The last document that matched, as it was"""
    after: bytes | None = None
    """The same as it is now"""

    @property
    def upserted_id(self) -> Any:
        """The `_id` of the document that was inserted."""
        return None if self.upserted is None else id_of(self.upserted)


def id_of(document: bytes) -> Any:
    """The `_id` of a document or of a document key."""
    found = rawbson.find(document, b"_id")
    return None if found is None else decode_value(document, found[0], found[2], found[3])


class Updater:
    """Runs the updates of one command."""

    def __init__(
        self,
        unit: WritingUnit,
        context: Context,
        time: CommandTime,
        variables: Mapping[str, Any],
        *,
        bypasses_validation: bool = False,
    ) -> None:
        self._unit = unit
        self._context = context
        self._time = time
        self._variables = variables
        self._bypasses_validation = bypasses_validation

    def run(
        self,
        database: str,
        name: str,
        spec: UpdateSpec,
        *,
        statement_id: int | None = None,
        retry_image: str | None = None,
    ) -> UpdateOutcome:
        """Execute one statement on a collection."""
        collection = existing_collection(self._unit.catalog, database, name)
        variables = {**self._variables, **(spec.constants or {})}
        selection = Selection.compile(
            spec.query, variables=variables, collation=spec.collation, sort=spec.sort, collection=collection
        )
        update = compile_update(
            spec.update,
            array_filters=spec.array_filters,
            variables=variables,
            collation=selection.collation,
        )
        _check(spec, update)
        change = _Change(selection, update, spec.update, self._time)
        outcome = UpdateOutcome()
        if collection is not None:
            validator = self._validator(collection)
            store = self._storing(collection, validator, statement_id, retry_image, outcome)
            if spec.multi:
                for target in selection.all(self._unit, collection, self._context):
                    store(target, change.of(target))
            else:
                found = selection.first(self._unit, collection, self._context)
                if found is not None:
                    store(found, change.of(found))
        if not outcome.matched and spec.upsert:
            self._insert(database, name, spec, change, statement_id, outcome)
        return outcome

    def _validator(self, collection: Collection) -> Validator | None:
        if self._bypasses_validation:
            return None
        return Validator.of(collection, self._context.server.log)

    def _storing(
        self,
        collection: Collection,
        validator: Validator | None,
        statement_id: int | None,
        retry_image: str | None,
        outcome: UpdateOutcome,
    ) -> Callable[[Target, UpdateResult], None]:
        unit = self._unit

        def store(target: Target, result: UpdateResult) -> None:
            before = target.raw
            if not result.modified:
                outcome.matched += 1
                outcome.before = outcome.after = before
                return
            after = encode(result.document)
            if len(after) > rawbson.MAX_USER_SIZE:
                reason = f"Resulting document after update is larger than {rawbson.MAX_USER_SIZE}"
                raise CommandError(ErrorCode.BSONObjectTooLarge, reason)
            if validator is not None:
                validator.check_update(target.document, result.document)
            logged = _logged(result, before, after)
            unit.update(
                collection, target.key, before, after, logged, stmt_id=statement_id, retry_image=retry_image
            )
            outcome.matched += 1
            outcome.modified += 1
            outcome.before, outcome.after = before, after

        return store

    def _insert(
        self,
        database: str,
        name: str,
        spec: UpdateSpec,
        change: "_Change",
        statement_id: int | None,
        outcome: UpdateOutcome,
    ) -> None:
        if spec.supplies_document:
            document = encode((spec.constants or {})["new"])
        else:
            document = encode(change.of_new(new_document(spec.query, is_replacement=change.is_replacement)))
        document = storable(document, self._context.server.store.clock, fill_timestamps=False)
        collection = collection_to_insert(self._unit, database, name)
        validator = self._validator(collection)
        if validator is not None:
            validator.check_insert(document)
        self._unit.end_group()
        self._unit.insert(collection, document, stmt_id=statement_id)
        self._unit.end_group()
        outcome.upserted = outcome.after = document


class _Change:
    """What an update makes of documents."""

    def __init__(self, selection: Selection, update: Update, spec: Any, time: CommandTime) -> None:
        self._selection = selection
        self._update = update
        self._time = time
        self._needs_position = _is_positional(spec)
        self.is_replacement = update.is_replacement

    def of(self, target: Target) -> UpdateResult:
        """The result for a document that matched."""
        position = self._selection.matcher.array_position(target.document) if self._needs_position else None
        time = self._time
        return self._update.apply(
            target.document, array_position=position, now=time.now, cluster_time=time.cluster_time
        )

    def of_new(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document to insert, from one made of the query."""
        time = self._time
        result = self._update.apply(
            document, is_upsert_insert=True, now=time.now, cluster_time=time.cluster_time
        )
        return result.document


def _check(spec: UpdateSpec, update: Update) -> None:
    if spec.multi and update.is_replacement:
        reason = "multi update is not supported for replacement-style update"
        raise CommandError(ErrorCode.FailedToParse, reason)
    if spec.constants is not None and not isinstance(spec.update, list):
        raise CommandError(51198, "Constant values may only be specified for pipeline updates")
    if spec.multi and spec.sort:
        raise CommandError(ErrorCode.FailedToParse, "Cannot specify sort with multi=true")


def _is_positional(spec: Any) -> bool:
    """Whether an update has the positional operator, which needs the element that the query found."""
    if not isinstance(spec, Mapping):
        return False
    return any(
        "$" in path.split(".") for paths in spec.values() if isinstance(paths, Mapping) for path in paths
    )


def _logged(result: UpdateResult, before: bytes, after: bytes) -> bytes:
    """What is logged of a change: a diff, or the whole document if that was meant or is smaller."""
    if result.is_replacement:
        return after
    if result.diff is not None:
        return encode({"$v": _VERSION, "diff": result.diff})
    diff = compute_diff(before, after)
    if diff is None:
        return after
    version = rawbson.element(rawbson.INT32, b"$v", rawbson.INT32_LE.pack(_VERSION))
    return rawbson.document(version, rawbson.element(rawbson.DOCUMENT, b"diff", diff))
