"""The open cursors of a node, from registration to the last batch.

A cursor holds no thread, no lock and no LMDB transaction between getMores. One getMore at a time uses it;
when that fails, or its client disconnects, the cursor ends. It also ends with its session, with its
transaction, by killCursors, and after a time without use.
"""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import DatetimeMS, Int64

from tailrace.bson.documents import decode
from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.clock import WallClock

if TYPE_CHECKING:
    from tailrace.mongod.server.access.needs import Rights
    from tailrace.mongod.server.access.stored import LoggedIn
    from tailrace.mongod.server.admin.parameters import Parameters
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.sessions.sessions import Session, Sessions

_API_FIELDS: Final = ("apiVersion", "apiStrict", "apiDeprecationErrors")
_MAX_ID: Final = 2**63 - 1


@dataclass(slots=True)
class CursorBatch:
    """The results of one getMore, or of the command that opened the cursor."""

    documents: list[bytes]
    post_batch_resume_token: bytes | None = None
    """a change stream's position after this batch, as a BSON document"""
    exhausted: bool = False
    """there will be nothing more: the reply's cursor id is 0"""
    invalidated: bool = False
    """the change stream ended by an invalidation"""


class Cursor(Protocol):
    """What the registry requires of a cursor."""

    @property
    def ns(self) -> str:
        """The namespace in the replies; a getMore names the part after the first dot."""

    @property
    def is_tailable(self) -> bool:
        """Whether it stays open at the end of its results."""

    @property
    def is_tailable_await(self) -> bool:
        """Whether a getMore waits for results, for a time that it can set."""

    @property
    def is_change_stream(self) -> bool:
        """Whether its errors are labelled as a change stream's."""

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:
        """The next results: at most ``size`` of them, and at most as many as fit into a reply.

        A tailable cursor that has none waits up to ``wait_ms`` for the first. The call can be cancelled; the
        cursor is not used again after that.
        """

    def close(self) -> None:
        """Release everything; called once."""


@dataclass(slots=True, eq=False)
class OpenCursor:
    """A registered cursor and its use."""

    id: int
    cursor: Cursor
    lsid: bytes | None
    txn_number: int | None
    """The transaction it was opened in; None outside of one."""
    api: dict[str, Any]
    command: Mapping[str, Any]
    """The command that opened it, as currentOp shows it."""
    client: str
    created_ms: int
    last_use: float
    no_timeout: bool = False
    owner: "LoggedIn | None" = None
    """Whose it is, where access is controlled."""
    rights: "Rights" = ()
    """What its owner needs for it."""
    seconds_left: float | None = None
    """The rest of the opening command's `maxTimeMS`, shared by all its getMores; None without one."""
    plan_summary: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every reply with a batch of it."""
    documents_returned: int = 0
    batches_returned: int = 0
    position: bytes | None = None
    """The place of a change stream that its client knows of, as a token document."""
    user: "Context | None" = None
    """The command that uses it now."""
    error: CommandError | None = None
    """Why it was ended by something else; the next getMore gets this error."""

    def returned(self, batch: CursorBatch) -> None:
        """Count a batch that is sent."""
        self.documents_returned += len(batch.documents)
        self.batches_returned += 1
        if batch.post_batch_resume_token is not None:
            self.position = batch.post_batch_resume_token

    def describe(self) -> dict[str, Any]:
        """The field `cursor` of a currentOp entry."""
        shown: dict[str, Any] = {
            "cursorId": Int64(self.id),
            "createdDate": DatetimeMS(self.created_ms),
            "lastAccessDate": DatetimeMS(int(self.last_use * 1000)),
            "nDocsReturned": Int64(self.documents_returned),
            "nBatchesReturned": Int64(self.batches_returned),
            "noCursorTimeout": self.no_timeout,
            "tailable": self.cursor.is_tailable,
            "awaitData": self.cursor.is_tailable_await,
            "originatingCommand": dict(self.command),
        }
        if self.plan_summary is not None:
            shown["planSummary"] = self.plan_summary
        if self.position is not None:
            shown["postBatchResumeToken"] = decode(self.position)
        if self.user is not None:
            shown["operationUsingCursorId"] = Int64(self.user.operation_id)
        return shown


class CursorUse:
    """A getMore's use of its cursor; a class, because `contextmanager` is slow."""

    __slots__ = ("_cursors", "_entry")

    def __init__(self, cursors: "Cursors", entry: OpenCursor) -> None:
        self._cursors = cursors
        self._entry = entry

    def __enter__(self) -> OpenCursor:
        return self._entry

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cursors.used(self._entry, has_failed=kind is not None)


class Cursors:
    """All open cursors of a node."""

    def __init__(self, sessions: "Sessions", wall: WallClock, parameters: "Parameters") -> None:
        self._wall = wall
        self._parameters = parameters
        self._by_id: dict[int, OpenCursor] = {}
        self.total_opened = 0
        self.timed_out = 0
        self.more_than_one_batch = 0
        sessions.on_end.append(self._session_ended)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[OpenCursor]:
        return iter(list(self._by_id.values()))

    def get(self, cursor_id: object) -> OpenCursor | None:
        return self._by_id.get(cursor_id) if isinstance(cursor_id, int) else None

    def in_use(self) -> dict[int, OpenCursor]:
        """The cursors that commands use now, by operation id."""
        return {entry.user.operation_id: entry for entry in self._by_id.values() if entry.user is not None}

    # -- from the first batch to the last ---------------------------------------------------------------

    def register(
        self,
        context: "Context",
        cursor: Cursor,
        first: CursorBatch,
        *,
        no_timeout: bool = False,
        plan_summary: str | None = None,
        shown: Mapping[str, Any] | None = None,
    ) -> int:
        """Keep a cursor open after its first batch; returns its id, or 0 if there are no more results.

        The cursor belongs to the session and the transaction of the command that opened it.
        """
        if first.exhausted:
            cursor.close()
            return 0
        entry = OpenCursor(
            self._new_id(),
            cursor,
            context.lsid,
            context.txn_number if context.in_transaction else None,
            _api_of(context.command),
            context.shown_command,
            context.client.address,
            self._wall.milliseconds(),
            self._wall.seconds(),
            no_timeout,
            None if context.client.guard is None else context.client.user,
            context.rights,
            _seconds_left(context),
            plan_summary,
            shown or {},
        )
        entry.returned(first)
        self._by_id[entry.id] = entry
        self.total_opened += 1
        return entry.id

    def _new_id(self) -> int:
        while True:
            cursor_id = 1 + secrets.randbelow(_MAX_ID)
            if cursor_id not in self._by_id:
                return cursor_id

    def use(self, context: "Context", cursor_id: int, ns: str) -> "CursorUse":
        """Use a cursor for a getMore. An exception in the block ends the cursor.

        Raises if there is no such cursor, if it is not this client's, or if it is in use; then it stays open.
        """
        entry = self._by_id.get(cursor_id)
        if entry is None:
            raise CommandError(ErrorCode.CursorNotFound, f"cursor id {cursor_id} not found")
        context.is_change_stream = entry.cursor.is_change_stream
        self._check_use(context, entry, ns)
        if entry.error is not None:
            self._remove(entry)
            raise entry.error
        entry.user = context
        return CursorUse(self, entry)

    def finish(self, entry: OpenCursor) -> None:
        """End a cursor that has no more results."""
        self._remove(entry)

    def used(self, entry: OpenCursor, *, has_failed: bool) -> None:
        """End the use of a cursor."""
        entry.user = None
        entry.last_use = self._wall.seconds()
        if has_failed or entry.error is not None:
            self._remove(entry)
        elif entry.batches_returned == 2:
            self.more_than_one_batch += 1

    @staticmethod
    def _check_use(context: "Context", entry: OpenCursor, ns: str) -> None:
        if entry.user is not None:
            raise CommandError(ErrorCode.CursorInUse, f"cursor id {entry.id} is already in use")
        if context.client.guard is not None:
            _check_owner(context, entry)
        _check_session(context, entry)
        if ns != entry.cursor.ns:
            reason = (
                f"Requested getMore on namespace '{ns}', but cursor belongs to a different namespace "
                f"{entry.cursor.ns}"
            )
            raise CommandError(ErrorCode.Unauthorized, reason)
        if _api_of(context.command) != entry.api:
            reason = (
                "API parameter mismatch: getMore used params "
                f"{_api_of(context.command)}, "
                f"the cursor-creating command used {entry.api}"
            )
            raise CommandError(ErrorCode.APIMismatchError, reason)

    # -- the end from outside ---------------------------------------------------------------------------

    def kill(self, cursor_id: int) -> bool:
        """End a cursor and fail its running getMore; returns whether it was open."""
        entry = self._by_id.get(cursor_id)
        if entry is None:
            return False
        self._kill(entry)
        return True

    def kill_session(self, lsid: bytes) -> int:
        """End the cursors of a session; returns their number."""
        return self._kill_all_of(entry for entry in self if entry.lsid == lsid)

    def kill_transaction(self, lsid: bytes, txn_number: int) -> int:
        """End the cursors that were opened in a transaction; returns their number."""
        return self._kill_all_of(
            entry for entry in self if entry.lsid == lsid and entry.txn_number == txn_number
        )

    def fail_all(self, error: CommandError) -> None:
        """End all cursors with an error: commands that use one fail with it, and so does the next getMore."""
        for entry in self:
            entry.error = error
            if entry.user is not None:
                entry.user.interrupt(error)

    def end_unauthorized(self) -> None:
        """End the cursors whose owners no longer have the rights for them; getMores that wait fail now."""
        for entry in self:
            if entry.owner is not None and not _is_authorized(entry):
                entry.error = CommandError(
                    ErrorCode.Unauthorized, f"not authorized for getMore with cursor id {entry.id}"
                )
                if entry.user is not None:
                    entry.user.interrupt(entry.error)

    def reap(self) -> int:
        """End the cursors that were not used for too long; returns their number.

        A cursor of a session ends with the session, unless a parameter says otherwise.
        """
        oldest = self._wall.seconds() - self._parameters["cursorTimeoutMillis"] / 1000
        in_sessions = self._parameters["enableTimeoutOfInactiveSessionCursors"]
        expired = [
            entry
            for entry in self
            if entry.user is None
            and (entry.lsid is None or in_sessions)
            and not entry.no_timeout
            and entry.last_use < oldest
        ]
        for entry in expired:
            self._remove(entry)
        self.timed_out += len(expired)
        return len(expired)

    def close(self) -> None:
        """End all cursors."""
        for entry in self:
            self._remove(entry)

    def _session_ended(self, session: "Session") -> None:
        self.kill_session(session.lsid)

    def _kill_all_of(self, entries: Iterator[OpenCursor]) -> int:
        found = list(entries)
        for entry in found:
            self._kill(entry)
        return len(found)

    def _kill(self, entry: OpenCursor) -> None:
        if entry.user is None:
            self._remove(entry)
            return
        # The running getMore ends it; the interruption makes it do so now.
        entry.error = CommandError(ErrorCode.CursorKilled, f"cursor id {entry.id} was killed")
        entry.user.interrupt(entry.error)

    def _remove(self, entry: OpenCursor) -> None:
        if self._by_id.pop(entry.id, None) is not None:
            entry.cursor.close()

    # -- for the administrator --------------------------------------------------------------------------

    def idle_operations(self, host: str) -> list[tuple[OpenCursor, dict[str, Any]]]:
        """The cursors that no command uses, with their entries of currentOp."""
        shown = []
        for entry in self:
            if entry.user is not None:
                continue
            operation: dict[str, Any] = {"type": "idleCursor", "host": host, "client": entry.client}
            if entry.lsid is not None:
                operation["lsid"] = decode(entry.lsid)
            operation |= {"ns": entry.cursor.ns, "cursor": entry.describe()}
            shown.append((entry, operation))
        return shown

    def statistics(self) -> dict[str, Any]:
        """The section `metrics.cursor` of serverStatus."""
        entries = list(self)
        return {
            "timedOut": Int64(self.timed_out),
            "totalOpened": Int64(self.total_opened),
            "moreThanOneBatch": Int64(self.more_than_one_batch),
            "open": {
                "noTimeout": Int64(sum(entry.no_timeout for entry in entries)),
                "pinned": Int64(sum(entry.user is not None for entry in entries)),
                "total": Int64(len(entries)),
            },
        }


def _seconds_left(context: "Context") -> float | None:
    return None if context.deadline is None else max(context.deadline - time.monotonic(), 0.0)


def _check_owner(context: "Context", entry: OpenCursor) -> None:
    """Refuse a getMore of another user than the cursor's, or of one who has lost a right since."""
    user = context.client.user
    if user is None or entry.owner is None or user.principal != entry.owner.principal:
        reason = f"cursor id {entry.id} was not created by the authenticated user"
        raise CommandError(ErrorCode.Unauthorized, reason)
    if not _is_authorized(entry):
        reason = f"not authorized for getMore with cursor id {entry.id}"
        raise CommandError(ErrorCode.Unauthorized, reason)


def _is_authorized(entry: OpenCursor) -> bool:
    privileges = None if entry.owner is None else entry.owner.privileges
    return privileges is not None and all(right.is_held(privileges) for right in entry.rights)


def _check_session(context: "Context", entry: OpenCursor) -> None:
    """Refuse a getMore of another session or transaction than the cursor's."""
    start = f"Cannot run getMore on cursor {entry.id}, which was "
    if entry.lsid is None and context.lsid is not None:
        raise CommandError(50736, f"{start}not created in a session, in session {_shown(context.lsid)}")
    if entry.lsid is not None and context.lsid is None:
        raise CommandError(50737, f"{start}created in session {_shown(entry.lsid)}, without an lsid")
    if entry.lsid is not None and context.lsid is not None and entry.lsid != context.lsid:
        reason = f"{start}created in session {_shown(entry.lsid)}, in session {_shown(context.lsid)}"
        raise CommandError(50738, reason)
    number = context.txn_number if context.in_transaction else None
    if entry.txn_number is None and number is not None:
        raise CommandError(50739, f"{start}not created in a transaction, in transaction {number}")
    if entry.txn_number is not None and number is None:
        raise CommandError(50740, f"{start}created in a transaction, without a txnNumber")
    if entry.txn_number != number:
        reason = f"{start}created in transaction {entry.txn_number}, in transaction {number}"
        raise CommandError(50741, reason)


def _shown(lsid: bytes) -> str:
    return str(decode(lsid)["id"].as_uuid())


def _api_of(command: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: command.get(name) for name in _API_FIELDS}
    return {name: value for name, value in given.items() if not isinstance(value, Undefined | None)}
