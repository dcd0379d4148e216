"""Run the statements of a write command on the shards that they belong to.

Ordered: neighbouring statements for the same shard are sent as one command, and the first error ends it.
Unordered: one command for each shard, all at the same time. A statement for all matching documents goes to
every shard that may have some. A statement for one document that may be on any of several shards is searched
first; then it is sent to the shard that has the document, and applies if the document still matches.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.find_target import FoundTarget, find_target, key_query
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.owner_change import change_owner
from tailrace.mongod.cluster.writes.ownership import ShardOwnership
from tailrace.mongod.cluster.writes.retried import ExecutedStatements, find_executed
from tailrace.mongod.cluster.writes.routing import Route, Routing
from tailrace.mongod.cluster.writes.sending import Sender
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.writes.jobs import ends_command
from tailrace.mongod.server.writes.retries import is_retryable
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT

_NO_WRITES_LABEL: Final = "NoWritesPerformed"
"""Label of a shard's error before which it has done nothing of the command"""


async def execute(
    context: RouterContext, form: Form, statements: Sequence[Statement], *, ordered: bool
) -> None:
    """Run the statements; the results are in the form."""
    router = context.node
    for statement in statements:
        if router.placement.sharded(statement.ns) is not None:
            statement.work = form.read(statement)
    if not is_retryable(context):
        await Execution(context, form, ExecutedStatements()).run(statements, ordered=ordered)
        return
    lsid, number = context.lsid, context.txn_number
    assert lsid is not None, "a retryable write has a session"
    assert number is not None, "a retryable write has a number"
    if any(statement.is_multi for statement in statements):
        raise CommandError(ErrorCode.InvalidOptions, "Cannot use retryable writes with multi=true")
    # The same command may be running through another router.
    async with router.session_locks.of(lsid):
        executed = find_executed(router.stores, lsid, number)
        await Execution(context, form, executed).run(statements, ordered=ordered)


class Execution:
    def __init__(self, context: RouterContext, form: Form, executed: ExecutedStatements) -> None:
        self._context = context
        self._form = form
        self._router = context.node
        self._placement = self._router.placement
        self._sender = Sender(context)
        self._routing = Routing(
            self._placement,
            self._router.clock,
            form,
            executed,
            in_transaction=context.in_transaction,
            fills_timestamps=not context.command.get("bypassEmptyTsReplacement"),
        )
        self._has_done = False
        """Whether a shard has done something"""

    async def run(self, statements: Sequence[Statement], *, ordered: bool) -> None:
        """Run all statements, or up to the first that fails."""
        names = {statement.ns for statement in statements}
        if ordered or self._context.in_transaction:
            await self._run_in_order(statements, names)
        else:
            await self._run_in_any_order(statements, names)

    # -- ordered and unordered ------------------------------------------------------------------------------

    async def _run_in_order(self, statements: Sequence[Statement], names: set[str]) -> None:
        place = 0
        while place < len(statements) and not self._form.has_errors:
            async with self._placement.using(*names):
                group, moving = await self._run_next(statements, place)
            place += len(group)
            for statement in moving:
                place = statements.index(statement) + 1  # the shard has stopped there
                await self._move(statement)

    async def _run_next(
        self, statements: Sequence[Statement], place: int
    ) -> tuple[Sequence[Statement], list[Statement]]:
        """Run the next statements that can be sent together; returns them, and one that changes owners."""
        group = [statements[place]]
        route = await self._route(statements[place])
        if isinstance(route, CommandError):
            self._form.fail(statements[place], route)
            return group, []
        if route.only is None:
            return group, await self._run_alone(statements[place], route)
        for statement in statements[place + 1 :]:
            if await self._route(statement) != route:
                break
            group.append(statement)
        return group, await self._exchange({route.only: group}, ordered=True)

    async def _run_in_any_order(self, statements: Sequence[Statement], names: set[str]) -> None:
        groups: dict[str, list[Statement]] = {}
        searches: list[Statement] = []
        moving: list[Statement] = []
        async with self._placement.using(*names):
            for statement in statements:
                route = await self._route(statement)
                if isinstance(route, CommandError):
                    self._form.fail(statement, route)
                elif route.is_search:
                    searches.append(statement)
                else:
                    for shard in route.shards:
                        groups.setdefault(shard, []).append(statement)
            moving += await self._exchange(groups, ordered=False)
        for statement in searches:
            async with self._placement.using(*names):
                moving += (await self._run_next([statement], 0))[1]
        for statement in moving:
            await self._move(statement)

    async def _route(self, statement: Statement) -> Route | CommandError:
        """The route of a statement, or the error that it fails with."""
        try:
            return await self._routing.route(statement)
        except CommandError as error:
            if ends_command(error):
                raise
            return error

    # -- steps ----------------------------------------------------------------------------------------------

    async def _exchange(self, groups: Mapping[str, Sequence[Statement]], *, ordered: bool) -> list[Statement]:
        """Send statements to shards in parallel; returns those that would change the owner of a document."""
        sent = [self._sender.send(shard, self._form, group) for shard, group in groups.items()]
        # One shard is the usual case, and needs no task.
        outcomes = [await _outcome(sent[0])] if len(sent) == 1 else await asyncio.gather(*map(_outcome, sent))
        moving: list[Statement] = []
        for group, outcome in zip(groups.values(), outcomes, strict=True):
            if not isinstance(outcome, CommandError):
                self._has_done = True
                moving += self._form.add(group, outcome)
        for group, outcome in zip(groups.values(), outcomes, strict=True):
            if isinstance(outcome, CommandError):
                if outcome.code == ErrorCode.WouldChangeOwningShard:
                    moving += group
                else:
                    self._fail(group[:1] if ordered else group, outcome)
        return moving

    def _fail(self, group: Sequence[Statement], error: CommandError) -> None:
        """Count the failure of a whole command on one shard.

        The client's command fails if nothing of it was done, or if it can be retried as a whole.
        """
        if not self._has_done:
            raise error
        if self._context.txn_number is not None:
            labels = [label for label in error.labels if label != _NO_WRITES_LABEL]
            raise CommandError(error.code, error.message, labels)
        for statement in group:
            self._form.fail(statement, error)

    async def _run_alone(self, statement: Statement, route: Route) -> list[Statement]:
        """Run a statement that goes to several shards, or whose document is searched first."""
        if route.is_search:
            try:
                return await self._search(statement, route.shards)
            except CommandError as error:
                if ends_command(error) or error.labels:
                    self._fail([statement], error)
                else:
                    self._form.fail(statement, error)
                return []
        return await self._exchange({shard: [statement] for shard in route.shards}, ordered=True)

    async def _search(self, statement: Statement, shards: Sequence[str]) -> list[Statement]:
        """Run a statement for one document that may be on any of the shards."""
        sharded = self._placement.require(statement.ns)
        while True:
            self._context.check_deadline()
            found = await self._look(statement)
            if found.target is None and statement.is_upsert:
                return await self._insert(statement, sharded, found.new_document())
            if found.target is None:
                # There is no match; a shard reports if anything else is wrong with the statement.
                return await self._exchange({shards[0]: [statement]}, ordered=True)
            document = found.target.raw
            owner = sharded.owner_of(document)
            if self._context.in_transaction:
                after = found.after()
                if self._changes_owner(statement, document, after):
                    return await self._replace(statement, sharded, document, after)
            one = self._form.narrowed(statement, key_query(sharded, document))
            outcome = await _outcome(self._sender.send(owner, self._form, [one]))
            if isinstance(outcome, CommandError):
                if outcome.code == ErrorCode.WouldChangeOwningShard:
                    return [statement]
                self._fail([statement], outcome)
                return []
            if self._form.has_found(outcome):
                self._has_done = True
                return self._form.add([statement], outcome)
            # The document was changed between the search and the write.

    async def _look(self, statement: Statement) -> FoundTarget:
        if self._context.in_transaction:
            return find_target(self._context, statement)
        # A document that changes its owner must not be missed on both shards.
        async with self._router.states.multi_shard_lock:
            return find_target(self._context, statement)

    def _changes_owner(self, statement: Statement, before: bytes, after: bytes) -> bool:
        collections = self._placement.collections
        sharded = collections[statement.ns]
        ownership = ShardOwnership(collections, sharded.owner_of(before))
        try:
            ownership.check_change(self._context, sharded, before, after, multi=False)
        except CommandError as error:
            if error.code != ErrorCode.WouldChangeOwningShard:
                raise
            return True
        return False

    # -- inserts and deletes by the router ------------------------------------------------------------------

    async def _insert(
        self, statement: Statement, sharded: TrackedCollection, document: bytes
    ) -> list[Statement]:
        """Insert the document of an upsert without a match on any shard."""
        await self._put(statement, sharded, document, is_numbered=True)
        return self._form.add([statement], self._form.upserted(document))

    async def _replace(
        self, statement: Statement, sharded: TrackedCollection, before: bytes, after: bytes
    ) -> list[Statement]:
        """Delete a document from one shard and insert the changed one on another; in a transaction."""
        database, _, name = statement.ns.partition(".")
        command = self._form.removal(statement, name, key_query(sharded, before))
        _check_written(await self._sender.run(sharded.owner_of(before), command, database))
        await self._put(statement, sharded, after, is_numbered=self._form.returns_new)
        return self._form.add([statement], self._form.updated(before, after))

    async def _put(
        self, statement: Statement, sharded: TrackedCollection, document: bytes, *, is_numbered: bool
    ) -> None:
        database, _, name = statement.ns.partition(".")
        command: dict[str, Any] = {"insert": name, "bypassEmptyTsReplacement": True}
        if statement.id is not None and is_numbered:
            command["stmtIds"] = [statement.id]
        owner = sharded.owner_of(document)
        _check_written(await self._sender.run(owner, command, database, {"documents": [document]}))
        self._has_done = True

    async def _move(self, statement: Statement) -> None:
        """Run a statement that makes another shard the owner of its document."""
        if statement.is_upsert:
            # There may be no document yet, and the new one may belong to another shard.
            async with self._placement.using(statement.ns):
                shards = self._placement.shards_of(statement.ns)
                if not await self._run_alone(statement, Route(shards, is_search=True)):
                    return
        await change_owner(self._context, self._form, statement)


async def _outcome(reply: Awaitable[dict[str, Any]]) -> dict[str, Any] | CommandError:
    try:
        return await reply
    except CommandError as error:
        return error


def _check_written(reply: Mapping[str, Any]) -> None:
    """Raise the error of the only statement of a command, or WriteConflict if it has written nothing."""
    for failed in reply.get("writeErrors", ()):
        error = CommandError(failed["code"], failed["errmsg"])
        error.details = {name: failed[name] for name in ("keyPattern", "keyValue") if name in failed}
        raise error
    if not reply.get("lastErrorObject", reply)["n"]:
        raise CommandError(ErrorCode.WriteConflict, "the document has been changed", [TRANSIENT])
