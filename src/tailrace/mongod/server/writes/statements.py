"""Run single statements of the commands that write: insert, update, delete, findAndModify, bulkWrite.

A `StatementRunner` serves one command on one unit. It has the statements of a retryable command that were
executed before, finds and creates collections, and caches what several statements share.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.release import TIMESERIES_DELETES
from tailrace.mongod.server.writes.command_time import CommandTime
from tailrace.mongod.server.writes.delete import DeleteOutcome, DeleteScope, run_delete
from tailrace.mongod.server.writes.evaluations import once
from tailrace.mongod.server.writes.namespaces import (
    Namespace,
    check_in_transaction,
    existing_collection,
    new_collection,
)
from tailrace.mongod.server.writes.new_document import storable
from tailrace.mongod.server.writes.retries import LoggedWrite, RetryHistory, is_retryable
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.targets import Selection, Unfinished
from tailrace.mongod.server.writes.timeseries import bucket_of, check_delete, check_indexed
from tailrace.mongod.server.writes.update import CompiledUpdate, UpdateOutcome, UpdateScope
from tailrace.mongod.server.writes.validation.validator import Validator
from tailrace.mongod.store.capped import insert_capped
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.query.variables import variables_at

T = TypeVar("T")


class StatementRunner:
    """Executes the statements of one command on a unit."""

    def __init__(
        self,
        unit: UnitOfWork,
        context: Context,
        *,
        let: Mapping[str, Any] | None = None,
        bypasses_validation: bool = False,
        fills_timestamps: bool = True,
        raw_data: bool = False,
        before: "StatementRunner | None" = None,
    ) -> None:
        """``before`` is the runner of the command's job before this one."""
        self.unit = unit
        self.time: CommandTime = (
            once(context, ("time",), lambda: CommandTime(unit)) if before is None else before.time
        )
        self.retried: list[int] = []
        """Ids of statements that were executed before."""
        self._let = let
        self._variables: dict[str, Any] | None = None
        self._context = context
        self._history = None
        self.unfinished: Unfinished | None = None
        """Where the next statement goes on, if it has begun in the job before."""
        if is_retryable(context) and isinstance(unit, WriteUnit):
            self._history = RetryHistory.open(unit, context, None if before is None else before._history)
        if before is not None:
            self._variables = before._variables
            self.retried += before.retried
        self._bypasses_validation = bypasses_validation
        self._fills_timestamps = fills_timestamps
        self._raw_data = raw_data
        self._size_codes = context.node.release.size_codes
        self._opened: dict[Namespace, tuple[Collection, Validator | None]] = {}

    @property
    def variables(self) -> dict[str, Any]:
        """Those of `let`, too; a fault of them is the error of each statement."""
        if self._variables is None:
            time, let = self.time, self._let
            self._variables = once(
                self._context, ("let",), lambda: variables_at(time.now, time.cluster_time, let)
            )
        return self._variables

    @property
    def is_unacknowledged(self) -> bool:
        """Whether the command's write concern asks for no results."""
        concern = self._context.write_concern
        return concern is not None and concern.is_unacknowledged

    def executed_before(self, statement_id: int | None) -> LoggedWrite | None:
        """The statement as it was executed before; None if it was not."""
        if self._history is None or statement_id is None:
            return None
        found = self._history.find(statement_id)
        if found is not None:
            self.retried.append(statement_id)
        return found

    def insert(self, namespace: Namespace, document: bytes, statement_id: int | None = None) -> None:
        """Insert a client's document."""
        if self._history is not None and self.executed_before(statement_id) is not None:
            return
        if self._context.evaluations is None:
            stored = self._storable(document)
        else:
            # The `_id` that a document gets stays the same.
            key = ("stored", id(document))
            stored = once(self._context, key, lambda: self._storable(document), len(document))
        opened = self._opened.get(namespace)
        collection, validator = opened if opened is not None else self._open(namespace)
        if collection.is_timeseries:
            stored = document  # a measurement needs no `_id`, and its fields keep their places
        self._put(collection, validator, stored, statement_id)

    def _storable(self, document: bytes) -> bytes:
        return storable(
            document,
            self.unit.clock,
            fill_timestamps=self._fills_timestamps,
            code_if_large=self._size_codes.insert,
        )

    def update(
        self,
        namespace: Namespace,
        spec: UpdateSpec,
        statement_id: int | None = None,
        retry_image: str | None = None,
        *,
        creates_first: bool = True,
    ) -> UpdateOutcome:
        """Update what matches; an upsert inserts a document if nothing does.

        An upsert creates a missing collection even if it fails: before its update and query are compiled, or
        after that if ``creates_first`` is not set.
        """
        logged = self.executed_before(statement_id)
        if logged is not None:
            return logged.update_outcome()
        if spec.multi:
            self._refuse_retryable("multi=true")
        collection = self._existing(namespace)
        before, self.unfinished = self.unfinished, None
        if before is not None:
            collection = before.collection_now(collection)
            scope = UpdateScope(self.unit, self._context, collection, self._opened[namespace][1])
            updated: UpdateOutcome = before.compiled.run(scope, before)
            return updated
        if collection is None and spec.upsert and creates_first:
            collection = self._open(namespace)[0]
        compiled = self._compiled(
            spec,
            collection,
            lambda: CompiledUpdate(spec, collection, self.time, self.variables, raw_data=self._raw_data),
        )
        if collection is None and spec.upsert:
            collection = self._open(namespace)[0]
        outcome = UpdateOutcome()
        if collection is not None:
            validator = self._opened[namespace][1]
            outcome = compiled.run(
                UpdateScope(self.unit, self._context, collection, validator, statement_id, retry_image)
            )
        if not outcome.matched and spec.upsert:
            document = once(self._context, ("new", id(compiled)), compiled.new_document)
            # An upsert has its own entry; only the documents of an insert share one.
            self.unit.end_group()
            outcome.upserted = outcome.after = self._upsert(namespace, document, statement_id)
            self.unit.end_group()
        return outcome

    def delete(
        self,
        namespace: Namespace,
        spec: DeleteSpec,
        statement_id: int | None = None,
        retry_image: str | None = None,
        *,
        in_find_and_modify: bool = False,
    ) -> DeleteOutcome:
        logged = self.executed_before(statement_id)
        if logged is not None:
            return logged.delete_outcome()
        if spec.multi:
            self._refuse_retryable("limit=0")
        collection = self._existing(namespace, removes=not in_find_and_modify)
        before, self.unfinished = self.unfinished, None
        if before is not None:
            scope = DeleteScope(self.unit, self._context, before.collection_now(collection))
            return run_delete(before.selection, scope, multi=True, before=before)
        if collection is not None and collection.is_timeseries and not self._raw_data:
            self._check_series_delete(collection, spec)
        selection = self._compiled(spec, collection, lambda: self._selection(spec, collection))
        if collection is None:
            return DeleteOutcome()
        scope = DeleteScope(self.unit, self._context, collection, statement_id, retry_image)
        return run_delete(selection, scope, multi=spec.multi)

    def _selection(self, spec: DeleteSpec, collection: Collection | None) -> Selection:
        return Selection(
            spec.query,
            variables=self.variables,
            collation=spec.collation,
            sort=spec.sort,
            hint=spec.hint,
            collection=collection,
            raw_data=self._raw_data,
        )

    def _compiled(
        self, spec: UpdateSpec | DeleteSpec, collection: Collection | None, compile_it: Callable[[], T]
    ) -> T:
        """What a statement is compiled to, for a collection as it is now."""
        # The collection is part of the result so that its address is not used again.
        key = ("compiled", id(spec), id(collection))
        return once(self._context, key, lambda: (compile_it(), collection))[0]

    def _refuse_retryable(self, option: str) -> None:
        if self._history is not None:
            raise CommandError(ErrorCode.InvalidOptions, f"Cannot use retryable writes with {option}")

    def _check_series_delete(self, collection: Collection, spec: DeleteSpec) -> None:
        if not self._context.node.release.has(TIMESERIES_DELETES):
            check_delete(collection.options["timeseries"], spec)

    def _upsert(self, namespace: Namespace, document: bytes, statement_id: int | None) -> bytes:
        document = storable(
            document, self.unit.clock, fill_timestamps=False, code_if_large=self._size_codes.upsert
        )
        collection, validator = self._open(namespace)
        ownership = self._context.client.ownership
        if ownership is not None:
            ownership.check_upsert(collection, document)
        self._put(collection, validator, document, statement_id)
        return document

    def _put(
        self, collection: Collection, validator: Validator | None, document: bytes, statement_id: int | None
    ) -> None:
        if validator is not None:
            once(self._context, ("valid", document), lambda: validator.check_insert(document), len(document))
        if collection.is_timeseries and not self._raw_data:
            check_indexed(collection, document)
            document = bucket_of(collection.options["timeseries"], document)
        if collection.is_capped and isinstance(self.unit, WriteUnit):
            insert_capped(self.unit, collection, document, statement_id)
        else:
            self.unit.insert(collection, document, stmt_id=statement_id)

    def _open(self, namespace: Namespace) -> tuple[Collection, Validator | None]:
        """The collection to insert into, which is created if necessary, and its validator."""
        collection = self._existing(namespace)
        if collection is None:
            self._context.created[str(namespace)] = None
            return self._remember(namespace, new_collection(self.unit, namespace))
        return self._opened[namespace]

    def _existing(self, namespace: Namespace, *, removes: bool = False) -> Collection | None:
        opened = self._opened.get(namespace)
        if opened is not None:
            return opened[0]
        namespace.check_uuid(self.unit.catalog)
        collection = existing_collection(self.unit.catalog, namespace)
        if collection is None:
            return None
        if self.unit.in_transaction:
            check_in_transaction(collection, removes=removes)
        return self._remember(namespace, collection)[0]

    def _remember(self, namespace: Namespace, collection: Collection) -> tuple[Collection, Validator | None]:
        validator = None
        if not self._bypasses_validation:
            log, variables = self._context.node.log, self.time.variables
            key = ("validator", id(collection))
            validator, _ = once(
                self._context, key, lambda: (Validator.of(collection, log, variables), collection)
            )
        opened = collection, validator
        self._opened[namespace] = opened
        return opened
