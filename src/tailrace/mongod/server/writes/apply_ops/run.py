"""Apply operations: all together in one oplog entry if they can be, else one after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.apply_ops.changes import Changes, MissingCollectionError
from tailrace.mongod.server.writes.apply_ops.command_entries import apply_command
from tailrace.mongod.server.writes.apply_ops.operations import can_be_atomic, check_entry, check_operations
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.write_unit import WriteUnit

_NOT_LOGGED: Final = frozenset({"preCondition", "bypassDocumentValidation"})


@dataclass(frozen=True, slots=True)
class Options:
    allow_atomic: bool = True
    always_upsert: bool = True
    bypasses_validation: bool = False


class OperationFailedError(Exception):
    """An operation failed: ``results`` are those of the operations up to it."""

    def __init__(self, error: CommandError, results: list[bool]) -> None:
        super().__init__(str(error))
        self.error = error
        self.results = results


class Application:
    """The operations of one `applyOps`, from a client or from an entry of another one."""

    def __init__(
        self, context: MemberContext, database: str, given: Mapping[str, Any], options: Options
    ) -> None:
        """``given`` is the command, which is logged with its operations if they are applied together."""
        self._context = context
        self._database = database
        self._given = given
        self._options = options
        operations = check_operations(given["applyOps"])
        self._all: Sequence[dict[str, Any]] = operations
        self._applied = [operation for operation in operations if operation["op"] != "n"]

    async def run(self) -> list[bool]:
        """Apply all operations; returns their results, or raises `OperationFailedError`."""
        if self._options.allow_atomic and can_be_atomic(self._all) and self._have_databases():
            try:
                return await self._run_together()
            except MissingCollectionError:
                pass  # the operations before it are applied all the same
        return await self._run_one_by_one()

    def _have_databases(self) -> bool:
        existing = set(self._context.node.store.catalog.databases())
        return all(operation["ns"].partition(".")[0] in existing for operation in self._applied)

    async def _run_together(self) -> list[bool]:
        tried = 0

        def work(unit: WriteUnit) -> None:
            nonlocal tried
            changes = self._changes(unit, is_logged=False)
            logged = []
            for tried, operation in enumerate(self._applied, 1):  # noqa: B007 - read if one fails
                logged.append(changes.apply(operation))
            fields = {name: value for name, value in self._given.items() if name not in _NOT_LOGGED}
            unit.log(command(self._database, {**fields, "applyOps": logged}))

        try:
            await run_catalog_change(self._context, work)
        except MissingCollectionError:
            raise
        except CommandError as error:
            raise OperationFailedError(error, [False] * tried) from None
        return [True] * len(self._applied)

    async def _run_one_by_one(self) -> list[bool]:
        results: list[bool] = []
        for operation in self._applied:
            try:
                await self._run_one(operation)
            except CommandError as error:
                raise OperationFailedError(error, [*results, False]) from None
            results.append(True)
        return results

    async def _run_one(self, operation: Mapping[str, Any]) -> None:
        check_entry(operation)
        if operation["op"] != "c":
            work = lambda unit: self._changes(unit, is_logged=True).apply(operation)  # noqa: E731
            await run_catalog_change(self._context, work)
        elif "applyOps" in operation["o"]:
            database = operation["ns"].partition(".")[0]
            try:
                await Application(self._context, database, operation["o"], self._options).run()
            except OperationFailedError as failure:
                raise failure.error from None
        else:
            await apply_command(self._context, operation)

    def _changes(self, unit: WriteUnit, *, is_logged: bool) -> Changes:
        return Changes(
            unit,
            self._context,
            is_logged=is_logged,
            always_upsert=self._options.always_upsert,
            bypasses_validation=self._options.bypasses_validation,
        )
