"""Execute updates: find, change, validate and store documents."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode_value, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update import Update, UpdateResult, compile_update
from tailrace.mongod.language.update.query_features import check_upsert_query
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.command_time import CommandTime
from tailrace.mongod.server.writes.evaluations import once
from tailrace.mongod.server.writes.logged import logged_metadata, logged_update
from tailrace.mongod.server.writes.specs import UpdateSpec
from tailrace.mongod.server.writes.targets import (
    PieceEnds,
    Selection,
    Target,
    Unfinished,
    Visit,
    statement_collation,
)
from tailrace.mongod.server.writes.timeseries import check_update, with_meta
from tailrace.mongod.server.writes.upsert import document_of_query
from tailrace.mongod.server.writes.validation.validator import Validator
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.unit_of_work import UnitOfWork

_SIZE_RATIO: Final = 6
"""What a computed change takes in memory, as values and bytes, by the size of its document."""


@dataclass(slots=True)
class UpdateOutcome:
    matched: int = 0
    modified: int = 0
    upserted: bytes | None = None
    """The document that was inserted."""
    before: bytes | None = None
    """The last document that matched, before the update."""
    after: bytes | None = None
    """The same after the update."""

    @property
    def upserted_id(self) -> Any:
        """The `_id` of the document that was inserted."""
        return None if self.upserted is None else id_of(self.upserted)


def id_of(document: bytes) -> Any:
    """The `_id` of a document or of a document key."""
    found = rawbson.find(document, b"_id")
    return None if found is None else decode_value(document, found[0], found[2], found[3])


@dataclass(frozen=True, slots=True)
class UpdateScope:
    unit: UnitOfWork
    context: Context
    collection: Collection
    validator: Validator | None
    statement_id: int | None = None
    retry_image: str | None = None


class CompiledUpdate:
    """A compiled and checked update, to be run on a collection."""

    def __init__(
        self,
        spec: UpdateSpec,
        collection: Collection | None,
        time: CommandTime,
        variables: Mapping[str, Any],
        *,
        raw_data: bool = False,
    ) -> None:
        """With ``raw_data`` the documents of a time-series collection are its buckets."""
        variables = {**variables, **(spec.constants or {})}
        self._spec = spec
        self._time = time
        if collection is not None and collection.is_timeseries and not raw_data:
            check_update(collection.options["timeseries"], spec)
        # The update first: of two faults, that of the update is reported.
        self._update = compile_update(
            spec.update,
            array_filters=spec.array_filters,
            variables=variables,
            collation=statement_collation(spec.collation, collection),
        )
        if spec.upsert:
            check_upsert_query(spec.query)
        self.selection = Selection(
            spec.query,
            variables=variables,
            collation=spec.collation,
            sort=spec.sort,
            hint=spec.hint,
            collection=collection,
            raw_data=raw_data,
        )
        self._needs_position = _is_positional(spec.update)
        _check(spec, self._update)

    def run(self, scope: UpdateScope, before: Unfinished | None = None) -> UpdateOutcome:
        """Update what matches; raises `PieceEnds` if it has to go on in another job, from there."""
        outcome = UpdateOutcome()
        if self._spec.multi:
            visit = Visit()
            if before is not None:
                outcome, visit = replace(before.outcome), before.visit.copy()
            for target in self.selection.all(scope.unit, scope.collection, scope.context, visit):
                self._change(scope, target, outcome)
                if scope.unit.is_due():
                    raise PieceEnds(Unfinished(self.selection, scope.collection, visit, self, outcome))
        else:
            found = self.selection.first(scope.unit, scope.collection, scope.context)
            if found is not None:
                self._change(scope, found, outcome)
        return outcome

    def new_document(self) -> bytes:
        """The document to insert if none matches."""
        spec = self._spec
        if spec.supplies_document:
            return encode(self._supplied())
        start = document_of_query(spec.query, is_replacement=self._update.is_replacement)
        result = self._update.apply(
            start, is_upsert_insert=True, now=self._time.now, cluster_time=self._time.cluster_time
        )
        return encode(result.document)

    def preview(self, target: Target) -> bytes:
        """A document after the update, without storing it."""
        result = self._applied(target.document)
        return encode(result.document) if result.modified else target.raw

    def _supplied(self) -> dict[str, Any]:
        document = (self._spec.constants or {}).get("new")
        if not isinstance(document, dict):
            reason = "the parameter 'c.new' must be an object if 'upsertSupplied' is set"
            raise CommandError(ErrorCode.FailedToParse, reason)
        return document

    def _change(self, scope: UpdateScope, target: Target, outcome: UpdateOutcome) -> None:
        context, size = scope.context, _SIZE_RATIO * len(target.raw)
        change = once(context, ("change", id(self), target.raw), lambda: self._computed(scope, target), size)
        outcome.matched += 1
        outcome.before = outcome.after = target.raw
        if change is None:
            return
        document, after, logged = change
        if len(after) > rawbson.MAX_USER_SIZE:
            reason = f"Resulting document after update is larger than {rawbson.MAX_USER_SIZE}"
            raise CommandError(scope.context.node.release.size_codes.update, reason)
        ownership = scope.context.client.ownership
        if ownership is not None:
            ownership.check_update(scope.context, scope.collection, target.raw, after, multi=self._spec.multi)
        validator = scope.validator
        if validator is not None:
            key = ("validated", target.raw, after)
            once(context, key, lambda: validator.check_update(target.document, document), 2 * len(after))
        scope.unit.update(
            scope.collection,
            target.key,
            target.raw,
            after,
            logged,
            stmt_id=scope.statement_id,
            retry_image=scope.retry_image,
        )
        outcome.modified += 1
        outcome.after = after

    def _computed(self, scope: UpdateScope, target: Target) -> "tuple[dict[str, Any], bytes, bytes] | None":
        """The new document as values and as bytes, and its logged form; None if nothing changes."""
        result = self._applied(target.document)
        if not result.modified:
            return None
        measured = self.selection.timeseries
        if measured is None:
            after = encode(result.document)
            return (
                result.document,
                after,
                logged_update(result, target.raw, after, scope.context.node.release),
            )
        after = with_meta(measured, target.raw, result.document)
        return result.document, after, logged_metadata(result, measured["metaField"], target.raw, after)

    def _applied(self, document: dict[str, Any]) -> UpdateResult:
        position = self.selection.matcher.array_position(document) if self._needs_position else None
        return self._update.apply(
            document, array_position=position, now=self._time.now, cluster_time=self._time.cluster_time
        )


def _check(spec: UpdateSpec, update: Update) -> None:
    if spec.multi and update.is_replacement:
        reason = "multi update is not supported for replacement-style update"
        raise CommandError(ErrorCode.FailedToParse, reason)
    if spec.constants is not None and not isinstance(spec.update, list):
        raise CommandError(51198, "Constant values may only be specified for pipeline updates")
    if spec.multi and spec.sort:
        raise CommandError(ErrorCode.FailedToParse, "Cannot specify sort with multi=true")


def _is_positional(spec: Any) -> bool:
    """Whether an update has the positional operator, which needs the array element that the query matched."""
    if not isinstance(spec, Mapping):
        return False
    return any(
        "$" in path.split(".") for paths in spec.values() if isinstance(paths, Mapping) for path in paths
    )
