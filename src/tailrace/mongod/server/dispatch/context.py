"""The context of a running command: its request, its client, its deadline, and the node that runs it.

The dispatcher builds a `Context` from a request after the checks that all commands share, and passes it to
the command. The context is also the operation that currentOp shows and killOp ends.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.compare import type_name
from tailrace.bson.documents import encode
from tailrace.bson.values import Symbol, is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.concerns import ReadConcern, WriteConcern
from tailrace.mongod.server.dispatch.fields import When
from tailrace.mongod.server.net.client import Client
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.wire import Request
from tailrace.pacing import tick

if TYPE_CHECKING:
    from tailrace.mongod.server.access.needs import Rights
    from tailrace.mongod.server.admin.parameters import Parameters
    from tailrace.mongod.server.node import Node
    from tailrace.mongod.server.replica_set.member import Member
    from tailrace.mongod.server.sessions.sessions import Session
    from tailrace.mongod.server.sessions.transaction import Transaction
    from tailrace.mongod.server.writes.evaluations import Evaluations

_operation_ids: Final = itertools.count(1)
SECRET_FIELDS: Final = frozenset({"pwd", "payload", "speculativeAuthenticate"})
"""Fields that neither the log nor other clients may show."""
_STEPS_BETWEEN_TICKS: Final = 64
_NOT_SHOWN: Final = frozenset({"$clusterTime", "$readPreference"})


class Context:
    """One running command. The dispatcher sets the attributes that generic arguments determine."""

    # Defaults of most commands are class attributes, so that creating a context is cheap.
    write_concern: WriteConcern | None = None
    has_read_statements: bool = False
    """Set when the statements of insert, update or delete were read, so that they can begin."""
    has_written: bool = False
    """Set by a command that reads, but has written in this case, so that its write concern applies."""
    """None if the command does not give one."""
    read_concern: ReadConcern = ReadConcern()
    read_preference: str = "primary"
    lsid: bytes | None = None
    """The session's complete id as BSON."""
    rights: "Rights" = ()
    """The rights it needed, where access is controlled; its cursors need them, too."""
    session: "Session | None" = None
    txn_number: int | None = None
    in_transaction: bool = False
    """Whether the command belongs to a multi-document transaction, by its arguments."""
    starts_transaction: bool = False
    transaction: "Transaction | None" = None
    """The open transaction it runs in."""
    is_change_stream: bool = False
    """Whether it opens or reads a change stream; its errors are labelled for that."""
    heard_time: int | None = None
    """The cluster time that the client knows."""
    deadline: float | None = None
    """When `maxTimeMS` ends, in `time.monotonic` seconds."""
    waits_for_lock: bool = False
    """Whether it waits for the end of a transaction."""
    next_request: Request | None = None
    after_ok: bytes = b""
    """Elements of the reply between `ok` and the times."""
    has_no_times: bool = False
    """Whether the reply has no `$clusterTime` and no `operationTime`."""
    closes_connection: bool = False
    """Whether the connection is closed instead of sending the reply, because a fail point asks for it."""
    error: CommandError | None = None
    """The error that it has ended with."""
    changes_catalog: bool = False
    """Whether it has tried to change the catalog."""
    has_begun: bool = False
    """Whether its body has begun to run; before that it has changed nothing."""
    is_interruptible: bool = True
    """Whether an interruption may cancel an `await`; the body of a write is always completed."""
    is_partly_done: bool = False
    """Whether some of its changes are on disk already, so that it goes on without its client, too."""
    evaluations: "Evaluations | None" = None
    """What it has computed in a rehearsal of its statements."""
    _parts: tuple[Client, ...] = ()
    """For whom the commands run that are parts of this one, on the shards of a router."""
    _interruption: CommandError | None = None
    _task: "asyncio.Task[Any] | None" = None
    _has_cancelled: bool = False
    _cancelled_before: int = 0

    def __init__(
        self,
        node: "Node",
        client: Client,
        request: Request,
        name: str,
        entry: Command,
        command: dict[str, Any],
    ) -> None:
        self.node = node
        """The node that runs it."""
        self.client = client
        self.request = request
        self.entry = entry
        self.name = name
        """The name as the client sent it; ``entry.name`` is the same for all aliases."""
        self.database = request.database
        self.command = command
        """The command's body, decoded; document sequences of the message are only in `documents`."""
        self.created: dict[str, None] = {}
        """Namespaces of the collections that its statements have created."""
        self.operation_id = next(_operation_ids)
        self.started = time.monotonic()

    # -- arguments ------------------------------------------------------------------------------------

    def arguments(self) -> Arguments:
        """The command's own fields; declared ones are checked."""
        fields, release = self.entry.fields, self.node.release
        if fields is not None and fields.when is When.LATE:
            fields.check(self.name, self.command, release)
        return Arguments(self.name, self.command, release, is_declared=fields is not None)

    def documents(self, field: str) -> list[bytes]:
        """The raw documents of an array field, from a document sequence or from the body."""
        sequence = self.request.sequences.get(field)
        if sequence is not None:
            return list(sequence)
        body = self.request.command
        found = rawbson.find(body, field.encode())
        if found is None:
            reason = f"BSON field '{self.name}.{field}' is missing but a required field"
            raise CommandError(ErrorCode.IDLFailedToParse, reason)
        kind, _, start, _ = found
        if kind != rawbson.ARRAY:
            raise self.arguments().wrong_type(field, self.command[field], "array")
        items = []
        for position, (item_kind, _, item_start, item_end) in enumerate(rawbson.elements(body, start)):
            if item_kind in (rawbson.NULL, rawbson.UNDEFINED):
                continue
            if item_kind != rawbson.DOCUMENT:
                found_type = type_name(self.command[field][position])
                reason = (
                    f"BSON field '{self.name}.{field}.{position}' is the wrong type '{found_type}', "
                    "expected type 'object'"
                )
                raise CommandError(ErrorCode.TypeMismatch, reason)
            items.append(body[item_start:item_end])
            if not position % _STEPS_BETWEEN_TICKS:
                tick()
        return items

    def collection_name(self, *, wrong_type: int = ErrorCode.BadValue) -> str:
        """The collection a command names in its first field, checked as a name.

        ``wrong_type`` is the code if it is no text; it differs in commands that are parsed by hand.
        """
        value = self.command[self.name]
        if type(value) is Symbol:
            value = value.text
        if not is_string(value):
            reason = f"collection name has invalid type {type_name(value)}"
            fields = self.entry.fields
            code = wrong_type if fields is None else fields.code_of(self.name, wrong_type)
            raise CommandError(code, reason)
        if not value or value.startswith(".") or "\0" in value:
            reason = f"Invalid namespace specified '{self.database}.{value}'"
            raise CommandError(ErrorCode.InvalidNamespace, reason)
        return value

    @property
    def namespace(self) -> str | None:
        """The namespace a command names in its first field, as fail points and currentOp match it."""
        value = (
            self.command.get("collection") if self.entry.name == "getMore" else self.command.get(self.name)
        )
        return f"{self.database}.{value}" if is_string(value) else None

    @property
    def shown_command(self) -> dict[str, Any]:
        """The command as currentOp shows it, without the fields that drivers add to every command."""
        return {
            name: "xxx" if name in SECRET_FIELDS else value
            for name, value in self.command.items()
            if name not in _NOT_SHOWN
        }

    # -- reading -----------------------------------------------------------------------------------------

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """The state this command reads: the transaction's if it runs in one, else the newest."""
        if self.transaction is not None:
            yield self.transaction.reader
            return
        with self.node.states.snapshot() as snapshot:
            yield snapshot

    @property
    def parameters(self) -> "Parameters":
        """The node's parameters."""
        return self.node.parameters

    # -- time and interruption --------------------------------------------------------------------------

    def check_deadline(self) -> None:
        """Raise if the command's time is over or it was killed; long loops call this repeatedly."""
        if self._interruption is not None:
            raise self._interruption
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise CommandError(ErrorCode.MaxTimeMSExpired, "operation exceeded time limit")

    @property
    def is_for_reply_only(self) -> bool:
        """Whether it can be cancelled when its client disconnects: it waits or reads, for a reply."""
        return self.is_interruptible and self.request.expects_reply and not self.is_partly_done

    def interrupt(self, error: CommandError) -> None:
        """Make the command fail with ``error`` as soon as it can; the first interruption counts."""
        if self._interruption is not None:
            return
        self._interruption = error
        for part in self._parts:
            if part.operation is not None:
                part.operation.interrupt(error)
        task = self._task
        # A command that interrupts itself is not waiting; `check_deadline` raises the error later.
        if task is not None and self.is_interruptible and task is not asyncio.current_task():
            self._has_cancelled = True
            task.cancel()

    @contextmanager
    def with_part(self, client: Client) -> Iterator[None]:
        """Interrupt what runs for ``client`` inside, whenever this command is interrupted."""
        if self._interruption is not None:
            raise self._interruption
        client.is_gone = self.client.is_gone
        self._parts = (*self._parts, client)
        try:
            yield
        finally:
            self._parts = tuple(part for part in self._parts if part is not client)
            self.created |= client.created

    @property
    def interruption(self) -> CommandError | None:
        """The error with which the command has to end, if there is one."""
        return self._interruption

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Allow interruptions during a wait, in a command that otherwise cannot be interrupted."""
        was_interruptible, self.is_interruptible = self.is_interruptible, True
        self.waits_for_lock = True
        try:
            self.check_deadline()
            yield
        finally:
            self.waits_for_lock = False
            self.is_interruptible = was_interruptible

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Allow interruptions while a command that otherwise cannot be interrupted has no effect yet."""
        was_interruptible, self.is_interruptible = self.is_interruptible, True
        try:
            self.check_deadline()
            if self.client.is_gone and self.request.expects_reply and not self.is_partly_done:
                raise _client_gone()
            yield
        finally:
            self.is_interruptible = was_interruptible

    def client_gone(self) -> None:
        """Interrupt the parts of a write that have no effect yet, because nobody waits for the reply."""
        for part in self._parts:
            part.is_gone = True
            if part.operation is not None and part.operation.is_for_reply_only:
                part.operation.interrupt(_client_gone())

    def begin(self, task: "asyncio.Task[Any]") -> None:
        """Store the task that an interruption cancels."""
        self._task = task
        self._cancelled_before = task.cancelling()

    def cancelled(self) -> CommandError | None:
        """The interruption that caused a cancellation; None if something else did."""
        if self._task is None or not self._has_cancelled:
            return None
        self._has_cancelled = False
        # A cancellation from outside, in addition to ours, must not be lost.
        return None if self._task.uncancel() > self._cancelled_before else self._interruption

    def end(self) -> None:
        """To be called after the last point of interruption; the task then runs other commands."""
        if self._task is not None and self._has_cancelled:
            self._task.uncancel()
        self._task = None

    # -- several replies ----------------------------------------------------------------------------------

    @property
    def exhaust_allowed(self) -> bool:
        """Whether the client accepts further replies without further requests."""
        return self.request.exhaust_allowed

    @property
    def is_repetition(self) -> bool:
        """Whether it is run because of `repeat`."""
        return self.request.is_repetition

    def repeat(self, changes: Mapping[str, Any] | None = None) -> None:
        """Run the command again after this reply, with some fields changed, without another request.

        Does nothing unless `exhaust_allowed`.
        """
        if not self.exhaust_allowed:
            return
        if changes is None:
            again = self.request.is_repetition
            self.next_request = self.request if again else replace(self.request, is_repetition=True)
        else:
            changed = encode({**self.command, **changes})
            self.next_request = replace(
                self.request, command=changed, decoded=None, is_exact=False, is_repetition=True
            )


def _client_gone() -> CommandError:
    return CommandError(ErrorCode.Interrupted, "the client has disconnected")


class MemberContext(Context):
    """A command on a member of a replica set, or on a standalone server: a node with data."""

    node: "Member"
