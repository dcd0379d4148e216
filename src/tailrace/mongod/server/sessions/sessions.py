"""Logical sessions: their ids, last use and transactions.

A session begins with its first use. It ends with endSessions, or when it was not used for half an hour; its
cursors and its transaction end with it.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from bson import Binary
from bson.binary import UUID_SUBTYPE

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.fields import SESSION_ID
from tailrace.mongod.server.emulation.release import CURRENT
from tailrace.mongod.store.transactions.sessions import NO_USER

if TYPE_CHECKING:
    from tailrace.mongod.server.sessions.transaction import Transaction

MAX_SESSIONS: Final = 1_000_000
_UUID_SIZE: Final = 16
_DIGEST_SIZE: Final = 32


class Session:
    """One logical session."""

    __slots__ = ("last_use", "lock", "lsid", "transaction", "txn_number")

    def __init__(self, lsid: bytes, now: float) -> None:
        self.lsid = lsid
        """The complete id as BSON, `{id, uid}`; cursors and oplog entries have it too."""
        self.last_use = now
        """Seconds since 1970."""
        self.txn_number = -1
        """The newest number of a transaction or retryable write."""
        self.transaction: Transaction | None = None
        """The transaction with the number ``txn_number``, open or ended; None for retryable writes."""
        self.lock = asyncio.Lock()
        """Held by the command that uses the session's transaction number."""


class Sessions:
    """All sessions of a node that were used since its start and have not ended."""

    def __init__(
        self, now: Callable[[], float], timeout_minutes: int = 30, *, most: int = MAX_SESSIONS
    ) -> None:
        self._now = now
        self._most = most
        self.timeout_minutes = timeout_minutes
        """After this time without use a session ends."""
        self._by_id: dict[bytes, Session] = {}
        self.on_end: list[Callable[[Session], None]] = []
        """Called for each session that ends."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def use(self, lsid: bytes) -> Session:
        """The session with an id, which is created if necessary."""
        session = self._by_id.get(lsid)
        if session is None:
            if len(self._by_id) >= self._most:
                reason = f"Unable to add session; there are {self._most} sessions already"
                raise CommandError(ErrorCode.TooManyLogicalSessions, reason)
            session = self._by_id[lsid] = Session(lsid, self._now())
        session.last_use = self._now()
        return session

    def get(self, lsid: bytes) -> Session | None:
        return self._by_id.get(lsid)

    def end(self, lsid: bytes) -> bool:
        """End a session with its cursors and its transaction; returns whether it existed."""
        session = self._by_id.pop(lsid, None)
        if session is None:
            return False
        for listener in self.on_end:
            listener(session)
        return True

    def forget_numbers(self) -> None:
        """Read transaction numbers from the store again; other members may have used higher ones."""
        for session in self:
            session.txn_number = -1
            session.transaction = None

    def reap(self) -> int:
        """End the sessions that were not used for too long; returns their number."""
        oldest = self._now() - self.timeout_minutes * 60
        expired = [
            session.lsid
            for session in self._by_id.values()
            if session.last_use < oldest and not session.lock.locked()
        ]
        for lsid in expired:
            self.end(lsid)
        return len(expired)


def new_session_id(own: bytes = NO_USER) -> bytes:
    """A new id, for a session that the server starts; ``own`` is the digest of its user."""
    return _lsid(uuid.uuid4().bytes, own)


def parse_session_id(spec: object, path: str = "lsid", own: bytes = NO_USER) -> bytes:
    """The complete id, as BSON, of a client's `{id: UUID}`; ``own`` is the digest of the client's user."""
    if type(spec) is dict and len(spec) == 1:
        identity = spec.get("id")
        if type(identity) is Binary and identity.subtype == UUID_SUBTYPE and len(identity) == _UUID_SIZE:
            return b"".join((_LSID_HEAD, identity, _LSID_MIDDLE, own, b"\0"))  # what drivers send
    if not isinstance(spec, dict):
        raise Arguments("OperationSessionInfo", {}).wrong_type(path, spec, "object")
    fields = Arguments.checked(path, spec, SESSION_ID, CURRENT)
    identity = fields.value("id")
    user = fields.value("uid", None)
    inner = {name: spec[name] for name in ("txnNumber", "txnUUID") if fields.value(name, None) is not None}
    if len(identity) != _UUID_SIZE:
        reason = f"BSON field '{path}.id' is not a UUID: {len(identity)} bytes"
        raise CommandError(ErrorCode.InvalidUUID, reason)
    if user is None:
        user = own
    elif not isinstance(user, bytes) or len(user) != _DIGEST_SIZE:
        raise fields.wrong_type("uid", user, "binData")
    return _lsid(bytes(identity), bytes(user), inner)


def _lsid(identity: bytes, user: bytes, inner: dict[str, Any] | None = None) -> bytes:
    return encode({"id": Binary(identity, UUID_SUBTYPE), "uid": Binary(user), **(inner or {})})


_LSID_HEAD, _, _LSID_TAIL = _lsid(b"\1" * _UUID_SIZE, NO_USER).partition(b"\1" * _UUID_SIZE)
_LSID_MIDDLE: Final = _LSID_TAIL.removesuffix(NO_USER + b"\0")
