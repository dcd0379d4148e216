"""Who looks at the page: a user of the deployment, where it controls access; anybody elsewhere.

A visitor logs in with name and password, by the form of the page or by HTTP Basic. The deployment decides
whether the password is right, by a client of its own for each visitor. So the page has no list of users, and
a live tail shows what that user may see, as in any client.
"""

import base64
import binascii
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo.errors import OperationFailure, PyMongoError
from starlette.requests import Request

from tailrace.web.connection_strings import without_user
from tailrace.web.deployment import Client, in_short, new_client
from tailrace.web.subject import Subject

_SESSION_SECONDS: Final = 12 * 3600.0
_CHECK_SECONDS: Final = 15.0
"""For how long the answer to what a user may see is remembered."""
_MOST_SESSIONS: Final = 100
_UNAUTHORIZED: Final = 13


class RefusedError(Exception):
    """A visitor who may not see something; ``status`` is 401 if a log-in would help, else 403 or 503."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True, eq=False)
class Visitor:
    """Somebody with the rights of a client."""

    name: str
    """Empty where nobody logs in."""
    client: Client | None
    """None if there is no deployment to ask."""
    used: float = field(default_factory=time.monotonic)
    _checked: float = 0.0

    async def check_may_monitor(self) -> None:
        """Raise `RefusedError` unless the user may see the state of the deployment, and all its streams.

        Where nobody logs in, anybody may, also while the deployment is away: that is when a page and its
        metrics are needed.
        """
        if self.client is None or not self.name or time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        try:
            await self.client.admin.command({"serverStatus": 1, "none": 1})
            cursor = await self.client.admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$limit": 1}])
            await cursor.close()
        except OperationFailure as error:
            if error.code == _UNAUTHORIZED:
                raise RefusedError(
                    403, f"{self.name} may not see the state of the deployment; grant the role clusterMonitor"
                ) from None
            raise RefusedError(401, in_short(error)) from None
        except PyMongoError as error:
            if not self._checked:
                raise RefusedError(503, in_short(error)) from None
            return  # who could see it before the deployment went away still can
        self._checked = time.monotonic()


class Visitors:
    """The open sessions."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._sessions: dict[str, Visitor] = {}
        self._anybody: Visitor | None = None

    async def close(self) -> None:
        for visitor in [*self._sessions.values(), *([] if self._anybody is None else [self._anybody])]:
            await _close(visitor)

    async def of(self, request: Request) -> Visitor:
        """The visitor who sent a request; raises `RefusedError` if it has to log in first."""
        if not self._subject.has_users:
            if self._anybody is None:
                source = self._subject.source
                self._anybody = Visitor("", None if source is None else new_client(source))
            return self._anybody
        basic = _basic(request)
        if basic is not None:
            key = hashlib.sha256("\0".join(basic).encode()).hexdigest()
            return self._known(key) or await self._log_in(key, *basic, "admin")
        visitor = self._known(request.cookies.get(cookie_name(request), ""))
        if visitor is None:
            raise RefusedError(401, "log in as a user of the deployment")
        return visitor

    async def log_in(self, name: str, password: str, database: str) -> str:
        """Begin a session; returns the value of its cookie, raises `RefusedError`."""
        key = secrets.token_urlsafe(32)
        await self._log_in(key, name, password, database)
        return key

    async def log_out(self, key: str) -> None:
        visitor = self._sessions.pop(key, None)
        if visitor is not None:
            await _close(visitor)

    def _known(self, key: str) -> Visitor | None:
        visitor = self._sessions.get(key)
        now = time.monotonic()
        if visitor is None or now - visitor.used > _SESSION_SECONDS:
            return None
        visitor.used = now
        return visitor

    async def _log_in(self, key: str, name: str, password: str, database: str) -> Visitor:
        assert self._subject.source is not None
        if not name or not password:
            raise RefusedError(401, "a name and a password are needed")
        client = new_client(
            without_user(self._subject.source), username=name, password=password, authSource=database
        )
        try:
            await client.admin.command("ping")
        except OperationFailure as error:
            await client.close()
            raise RefusedError(401, in_short(error)) from None
        except PyMongoError as error:
            await client.close()
            raise RefusedError(503, in_short(error)) from None
        while len(self._sessions) >= _MOST_SESSIONS:
            oldest = min(self._sessions, key=lambda each: self._sessions[each].used)
            await self.log_out(oldest)
        visitor = self._sessions[key] = Visitor(name, client)
        return visitor


async def _close(visitor: Visitor) -> None:
    if visitor.client is not None:
        await visitor.client.close()


def cookie_name(request: Request) -> str:
    """The cookie of a session. Browsers send cookies to all ports of a host: each has its own."""
    return f"tailrace_{request.scope['server'][1]}"


def _basic(request: Request) -> tuple[str, str] | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def session_of(visitor: Visitor | None, subject: Subject) -> dict[str, Any]:
    """What the page needs to know before it shows anything."""
    return {
        "command": subject.command,
        "hasUsers": subject.has_users,
        "isLoggedIn": visitor is not None,
        "user": "" if visitor is None else visitor.name,
    }
