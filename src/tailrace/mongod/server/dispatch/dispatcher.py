"""Run requests: everything that commands share, around the function of the requested one.

The order of the checks is MongoDB's, so that a request with several faults gets the same error. A fault that
MongoDB has a code for is a `CommandError`; anything else is a fault of this server, which is logged once and
answered as InternalError. The client always gets a reply, unless it wants none or a fail point prevents it.
"""

import asyncio
import traceback
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.authorization import check_admin_only, check_login, check_rights, may
from tailrace.mongod.server.access.needs import right
from tailrace.mongod.server.access.privileges import CLUSTER
from tailrace.mongod.server.dispatch.api_versions import check_api_version
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.command_body import read_body
from tailrace.mongod.server.dispatch.concerns import WriteConcern
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.error_labels import Situation, labels_of
from tailrace.mongod.server.dispatch.fields import When
from tailrace.mongod.server.dispatch.generic_arguments import (
    check_database,
    read_generic_arguments,
    read_metadata,
)
from tailrace.mongod.server.dispatch.kinds import is_true
from tailrace.mongod.server.emulation.fail_command import CloseConnection, FailCommand
from tailrace.mongod.server.emulation.release import STREAMING_HELLO
from tailrace.mongod.server.net import replies
from tailrace.mongod.server.net.client import Client
from tailrace.mongod.wire import Request
from tailrace.traces import Traces

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node

_ADVANCE: Final = right(CLUSTER, "advanceClusterTime")
_COUNTED_AS: Final = {"find": "query", "getMore": "getmore"}
_COUNTED_BY_STATEMENT: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}
_UNTRACED: Final = frozenset({"hello", "isMaster", "ping"})
"""Commands by which drivers look whether a server is there."""
_NOT_RETRYABLE: Final = 50768
_NOT_PRIMARY_CODES: Final = frozenset(
    {
        ErrorCode.NotWritablePrimary,
        ErrorCode.NotPrimaryNoSecondaryOk,
        ErrorCode.NotPrimaryOrSecondary,
        ErrorCode.InterruptedDueToReplStateChange,
        ErrorCode.PrimarySteppedDown,
    }
)
_SHUTDOWN_CODES: Final = frozenset({ErrorCode.ShutdownInProgress, ErrorCode.InterruptedAtShutdown})


class Outcome(NamedTuple):
    """The result of a request."""

    reply: bytes = b""
    next_request: Request | None = None
    """To be run after the reply is sent, because the client accepts a stream of replies."""
    close: bool = False
    """Close the connection instead of replying."""


class Dispatcher:
    """Runs requests on a node. `_run_body` is the one place where functions of commands are called."""

    def __init__(self, node: "Node", kind_of_context: type[Context]) -> None:
        """``kind_of_context`` is the class of context that the node's commands get."""
        self._node = node
        self._kind_of_context = kind_of_context
        self._release = node.release

    async def run(self, client: Client, request: Request) -> Outcome:
        node = self._node
        try:
            context = self._context(client, request)
        except CommandError as error:
            return self._failed(None, error)
        except RecursionError:
            return self._failed(None, _too_deep(request))
        outcome = await self._run_to_outcome(client, request, context)
        node.usage.note(context)
        if node.options.audit is not None:
            node.options.audit.note(context)
        if node.options.traces is not None:
            _trace(node.options.traces, context)
        if node.profiler is not None and node.profiler.is_on:
            await node.profiler.note(context, outcome.reply, context.error)
        return outcome

    async def _run_to_outcome(self, client: Client, request: Request, context: Context) -> Outcome:
        node = self._node
        try:
            node.operations[context.operation_id] = client.operation = context
            own = await self._run(context)
            reply = replies.success(own, b"" if context.has_no_times else context.after_ok + self.tail())
        except CommandError as error:
            # Without its frames: it may be part of the context, which is in one of them.
            return self._failed(context, error.with_traceback(None))
        except CloseConnection:
            return Outcome(close=True)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except RecursionError:
            return self._failed(context, _too_deep(request))
        except BaseException as error:
            return self._failed(context, self._internal(client, request, error))
        finally:
            client.operation = None
            node.operations.pop(context.operation_id, None)
        return Outcome(reply, context.next_request, close=context.closes_connection)

    # -- before ---------------------------------------------------------------------------------------

    def _context(self, client: Client, request: Request) -> Context:
        name = request.name
        entry = self._node.commands.get(name)
        if (
            entry is None
            or (entry.is_test_command and not self._node.parameters["enableTestCommands"])
            or not self._release.has_command(name)
        ):
            self._node.counters.unknown_commands += 1
            raise CommandError(ErrorCode.CommandNotFound, f"no such command: '{name}'")
        command = read_body(request.command, request.decoded, is_exact=request.is_exact)
        if not self._release.is_current:
            self._release.check_command(entry.name, command)
        return self._kind_of_context(self._node, client, request, name, entry, command)

    async def _run(self, context: Context) -> Reply:
        self._count(context)
        entry = context.entry
        is_guarded = context.client.guard is not None
        check_api_version(context.command, entry.name)
        if entry.admin_only:
            check_admin_only(context)
        if is_guarded:
            check_login(context)
        is_read_first = entry.fields is not None and entry.fields.when is When.FIRST
        if is_read_first:
            self._check_fields(context)
        if entry.check_first is not None:
            entry.check_first(context)
        read_metadata(context)
        self._hear_time(context)
        if not is_read_first and is_true(context.command.get("help")):
            context.has_no_times = True
            return {"help": f"help for: {context.name} {entry.help}"}
        if is_guarded:
            check_rights(context)
        read_generic_arguments(context)
        task = asyncio.current_task()
        if task is not None:
            context.begin(task)
        try:
            return await self._run_interruptible(context)
        except asyncio.CancelledError:
            interruption = context.cancelled()
            if interruption is None:
                raise
        finally:
            context.end()
        # Not in the handler: the cancellation would be the context of this error, and with it all that was
        # computed would be in a cycle, since the error is part of the command's context.
        raise interruption

    def _check_fields(self, context: Context) -> None:
        """Check a command's own fields before the arguments that all commands have."""
        entry = context.entry
        assert entry.fields is not None
        entry.fields.check(context.name, context.command, self._release)
        if entry.fields.names_collection(context.name):
            check_database(context)

    async def _run_interruptible(self, context: Context) -> Reply:
        timer = self._limit_time(context)
        try:
            fault = FailCommand.of(context)
            if fault is not None:
                await fault.before()
            self._check_state(context)
            reply = await self._run_in_session(context)
        finally:
            if timer is not None:
                timer.cancel()
        return self._with_write_concern_error(context, reply, fault)

    def _limit_time(self, context: Context) -> asyncio.TimerHandle | None:
        """Interrupt the command when its time is over, also while it waits."""
        if context.deadline is None:
            return None
        seconds = self._node.fail_points.limited(context.deadline - context.started)
        if seconds is None:
            context.deadline = None
            return None
        if not seconds:
            context.deadline = context.started
            context.check_deadline()
        expired = CommandError(ErrorCode.MaxTimeMSExpired, "operation exceeded time limit")
        return asyncio.get_running_loop().call_later(seconds, context.interrupt, expired)

    def _hear_time(self, context: Context) -> None:
        if context.heard_time is not None and (context.client.guard is None or may(context, _ADVANCE)):
            self._node.times.hear(context.heard_time)
        if context.lsid is not None:
            context.session = self._node.sessions.use(context.lsid)

    def _check_state(self, context: Context) -> None:
        """Refuse what this member cannot do in its present state."""
        entry, replication = context.entry, self._node.replication
        if replication.is_shutting_down and not entry.is_always_allowed:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "interrupted at shutdown")
        if replication.is_primary:
            return
        if entry.is_write:
            raise CommandError(ErrorCode.NotWritablePrimary, "not primary")
        if entry.is_read and context.read_preference == "primary":
            raise CommandError(ErrorCode.NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")
        if entry.is_read and context.in_transaction:
            raise CommandError(ErrorCode.NotWritablePrimary, "not primary")

    # -- the command itself -----------------------------------------------------------------------------

    async def _run_in_session(self, context: Context) -> Reply:
        if context.session is None or context.txn_number is None:
            await self._wait_for_time(context)
            return await self._run_body(context)
        self._check_transaction_number(context)
        # Statements with the same transaction number never overlap: a retry waits for the first attempt.
        async with context.session.lock:
            await self._wait_for_time(context)
            return await self._node.transactions.run(context, self._run_body)

    async def _wait_for_time(self, context: Context) -> None:
        wanted = context.read_concern.after_cluster_time
        if wanted is not None:
            await self._node.times.wait_for(wanted)

    def _check_transaction_number(self, context: Context) -> None:
        entry = context.entry
        if not self._node.is_replicated:
            reason = "Transaction numbers are only allowed on a replica set member or mongos"
            raise CommandError(ErrorCode.IllegalOperation, reason)
        if context.in_transaction:
            return
        if not entry.is_retryable_write:
            reason = (
                "txnNumber may only be provided for multi-document transactions and retryable writes; "
                f"autocommit:false was not provided, and {entry.name} is not a retryable write command"
            )
            raise CommandError(_NOT_RETRYABLE, reason)

    async def _run_body(self, context: Context) -> Reply:
        context.check_deadline()
        context.has_begun = True
        context.is_interruptible = not context.entry.is_write
        return await context.entry.run(context)

    # -- after ------------------------------------------------------------------------------------------

    def _with_write_concern_error(self, context: Context, reply: Reply, fault: FailCommand | None) -> Reply:
        if not (context.entry.is_write or context.has_written):
            return reply
        failure = fault.write_concern_error if fault is not None else None
        if failure is None:
            failure = self._concern_failure(context)
        if failure is None:
            return reply
        labels = fault.labels if fault is not None else None
        if labels is None:
            labels = labels_of(
                None,
                self._situation(context),
                write_concern_code=failure.get("code"),
                release=self._release,
            )
        after_ok = {"errorLabels": labels} if labels else {}
        context.after_ok = rawbson.body(encode(after_ok | self._topology(failure.get("code"))))
        extra = {"writeConcernError": failure}
        if isinstance(reply, bytes):
            return rawbson.document(rawbson.body(reply), rawbson.body(encode(extra)))
        return {**reply, **extra}

    def _concern_failure(self, context: Context) -> dict[str, Any] | None:
        """What is wrong with the write concern of a command that has run."""
        concern = context.write_concern
        default = self._node.default_concerns.write_concern
        if default is not None:
            concern = (concern or WriteConcern()).with_default(default)
        is_statement = context.in_transaction and not context.entry.ends_transaction
        return None if concern is None or is_statement else concern.failure(len(self._node.members))

    def _failed(self, context: Context | None, error: CommandError) -> Outcome:
        if context is None:
            situation, name = Situation(before_body=True), None
        else:
            situation, name = self._situation(context), context.entry.name
            context.error = error
        if name is not None:
            self._node.counters.commands[name].failed += 1
        fixed: list[str] | None = getattr(error, "fixed_labels", None)
        labels = fixed
        if context is not None and context.closes_connection:
            return Outcome(close=True)
        if labels is None:
            labels = labels_of(error.code, situation, own=error.labels, release=self._release)
        before_ok = self._topology(error.code)
        # A change of the catalog that fails has waited for its write concern all the same.
        failure = self._concern_failure(context) if context is not None and context.changes_catalog else None
        if failure is not None:
            before_ok = {"writeConcernError": failure, **before_ok}
        return Outcome(replies.failure(error, labels, before_ok, self.tail()))

    def _topology(self, code: int | None) -> dict[str, Any]:
        """The topology version, in errors that say that it has changed.

        By it drivers decide whether the error is older than what they know. An injected shutdown error has
        none: only a server that shuts down adds it.
        """
        replication = self._node.replication
        is_shutdown = code in _SHUTDOWN_CODES and replication.is_shutting_down
        if not (is_shutdown or code in _NOT_PRIMARY_CODES) or not self._release.has(STREAMING_HELLO):
            return {}
        return {"topologyVersion": replication.topology_version()}

    @staticmethod
    def _situation(context: Context) -> Situation:
        entry = context.entry
        is_retryable = context.txn_number is not None and (
            (entry.is_retryable_write and not context.in_transaction) or entry.ends_transaction
        )
        return Situation(
            is_retryable_write=is_retryable,
            in_transaction=context.in_transaction,
            ends_transaction=entry.ends_transaction,
            is_change_stream=context.is_change_stream,
            before_body=not context.has_begun,
        )

    def tail(self) -> bytes:
        """The times, which end every reply."""
        return self._node.times.reply_tail()

    def _internal(self, client: Client, request: Request, error: BaseException) -> CommandError:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error}"
        self._node.log.error(
            "COMMAND",
            "A command failed because of a fault of the server",
            client.name,
            command=request.name,
            error=reason,
            at=f"{where.filename}:{where.lineno}",
            trace="".join(traceback.format_exception(error)),
        )
        return CommandError(ErrorCode.InternalError, f"internal error in {request.name}: {reason}")

    def _count(self, context: Context) -> None:
        counters = self._node.counters
        name = context.entry.name
        counters.commands[name].total += 1
        operations = counters.operations
        field = _COUNTED_BY_STATEMENT.get(name)
        if field is not None:
            statements = context.request.sequences.get(field) or context.command.get(field)
            number = len(statements) if isinstance(statements, list | tuple) else 1
            setattr(operations, name, getattr(operations, name) + number)
            return
        kind = _COUNTED_AS.get(name, "command")
        setattr(operations, kind, getattr(operations, kind) + 1)


def _too_deep(request: Request) -> CommandError:
    return CommandError(ErrorCode.Overflow, f"{request.name}: too many things inside of one another")


def _trace(traces: Traces, context: Context) -> None:
    """Add a span of a command that has ended, by OpenTelemetry's conventions for databases."""
    name = context.entry.name
    if name in _UNTRACED:
        return
    database, _, collection = (context.namespace or context.database).partition(".")
    attributes = {"db.system.name": "mongodb", "db.operation.name": name, "db.namespace": database}
    if collection:
        attributes["db.collection.name"] = collection
    attributes["client.address"] = context.client.host
    error = context.error
    if error is not None:
        attributes["db.response.status_code"] = attributes["error.type"] = str(error.code)
    target = f"{database}.{collection}" if collection else database
    traces.add(f"{name} {target}", context.started, attributes, "" if error is None else error.code_name)
