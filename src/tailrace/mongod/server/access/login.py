"""Log in: one exchange of messages on a connection, from its first message to the logged-in user.

A client learns nothing from a failure but that there was one. Failures for one name from one address are
answered later and later, so that passwords cannot be guessed quickly.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.restrictions import may_connect
from tailrace.mongod.server.access.scram import MECHANISMS, ClientFirst, ScramError, ServerExchange
from tailrace.mongod.server.access.stored import LoggedIn

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

CONVERSATION: Final = 1
"""The id of the exchange; a connection has at most one."""
_AUTHENTICATED_ONCE: Final = 5626701
_FAILURES_WITHOUT_DELAY: Final = 3
_SECONDS_REMEMBERED: Final = 300.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_LONGEST_QUEUE: Final = 60.0
_MOST_REMEMBERED: Final = 10_000


class PendingLogin:
    """A log-in that has begun."""

    __slots__ = ()


@dataclass(slots=True)
class Conversation(PendingLogin):
    """One whose messages this server checks."""

    exchange: ServerExchange
    principal: Principal
    mechanism: str
    user: Mapping[str, Any]
    skips_last_message: bool
    is_proven: bool = False
    """Whether the client has proven that it knows the password."""


class Failures:
    """Failed log-ins of the last minutes, by name and address.

    Those who guess on many connections at once wait one after the other.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, float]] = {}
        """How many there were, and when the last one is answered."""

    def delay(self, name: str, host: str) -> float:
        """Count a failure; returns for how many seconds to wait before the answer."""
        now = time.monotonic()
        count, last = self._counts.pop((name, host), (0, now))
        count = 1 if now - last > _SECONDS_REMEMBERED else count + 1
        while len(self._counts) >= _MOST_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        answered = now
        if count > _FAILURES_WITHOUT_DELAY:
            pause = min(_FIRST_DELAY * 2 ** min(count - _FAILURES_WITHOUT_DELAY - 1, 16), _LONGEST_DELAY)
            answered = min(max(now, last) + pause, now + _LONGEST_QUEUE)
        self._counts[name, host] = (count, answered)
        return answered - now

    def forget(self, name: str, host: str) -> None:
        self._counts.pop((name, host), None)


def begin(context: "Context", fields: Mapping[str, Any], database: str) -> dict[str, Any]:
    """Begin to log in; returns the reply, raises MechanismUnavailable or `ScramError`."""
    client, access = context.client, context.node.access
    client.conversation = None
    name = fields["mechanism"]
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        reason = f"Received authentication for mechanism {name} which is not enabled"
        raise CommandError(ErrorCode.MechanismUnavailable, reason)
    first = ClientFirst.parse(payload_of(fields["payload"]))
    principal = Principal(first.user, database)
    user = access.user(principal)
    credential = None if user is None else user["credentials"].get(name)
    if user is None or not isinstance(credential, dict):
        raise RefusedLoginError(principal, "there is no such user, or it cannot log in in this way", name)
    options = fields.get("options")
    skips = isinstance(options, dict) and options.get("skipEmptyExchange") is True
    exchange = ServerExchange(mechanism, first, credential)
    client.conversation = Conversation(exchange, principal, name, user, skips)
    return _reply(exchange.challenge.encode(), done=False)


def go_on(context: "Context", number: int, payload: Any) -> dict[str, Any]:
    """Answer a further message; logs the user in after the last one."""
    client = context.client
    conversation, client.conversation = client.conversation, None
    if not isinstance(conversation, Conversation):
        raise CommandError(ErrorCode.ProtocolError, "No SASL session state found")
    if number != CONVERSATION:
        raise CommandError(ErrorCode.ProtocolError, "sasl: Mismatched conversation id")
    answer = b""
    principal, mechanism = conversation.principal, conversation.mechanism
    if conversation.is_proven:
        if payload_of(payload):
            raise RefusedLoginError(principal, "the last message is not empty", mechanism)
    else:
        try:
            answer = conversation.exchange.finish(payload_of(payload))
        except ScramError as error:
            raise RefusedLoginError(principal, str(error), mechanism) from None
        conversation.is_proven = True
        if not conversation.skips_last_message:
            client.conversation = conversation
            return _reply(answer, done=False)
    user = context.node.access.user(principal)
    if user is None or user.get("userId") != conversation.user.get("userId"):
        raise RefusedLoginError(principal, "the user was removed during the log-in", mechanism)
    admit(context, principal, user, mechanism)
    return _reply(answer, done=True)


def admit(context: "Context", principal: Principal, user: Mapping[str, Any], mechanism: str) -> None:
    """Log in a user who has proven to be this one; raises `RefusedLoginError` for a forbidden address."""
    access = context.node.access
    restrictions = [user.get("authenticationRestrictions", []), access.granted_to(user).restrictions]
    log_in(context, LoggedIn(access, principal, user), restrictions, mechanism)


def log_in(context: "Context", user: LoggedIn, restrictions: Iterable[Any], mechanism: str) -> None:
    """Make a user the one of this connection, if all restrictions of addresses allow it."""
    client, node = context.client, context.node
    principal = user.principal
    if not all(may_connect(each, client.host, client.server_host) for each in restrictions):
        raise RefusedLoginError(principal, "the user may not log in from this address", mechanism)
    if client.user is not None and client.user.principal != principal:
        reason = (
            "Each client connection may only be authenticated once. "
            f"Previously authenticated as: {client.user.principal}"
        )
        raise CommandError(_AUTHENTICATED_ONCE, reason)
    client.user = user
    node.failures.forget(str(principal), client.host)
    if node.options.audit is not None:
        node.options.audit.login(context, principal, mechanism, 0)
    node.log.debug("ACCESS", "Successfully authenticated", client.name, user=str(principal))


class RefusedLoginError(ScramError):
    """A log-in that failed for a known name."""

    def __init__(self, principal: Principal, reason: str, mechanism: str) -> None:
        super().__init__(reason)
        self.principal = principal
        self.mechanism = mechanism


async def refuse(context: "Context", error: ScramError) -> CommandError:
    """Wait as long as the failures before demand it; returns the error for the client."""
    client, node = context.client, context.node
    client.conversation = None
    name = str(error.principal) if isinstance(error, RefusedLoginError) else None
    node.log.info(
        "ACCESS", "Authentication failed", client.name, user=name, client=client.address, error=str(error)
    )
    if node.options.audit is not None:
        principal, mechanism = None, ""
        if isinstance(error, RefusedLoginError):
            principal, mechanism = error.principal, error.mechanism
        node.options.audit.login(context, principal, mechanism, ErrorCode.AuthenticationFailed)
    delay = 0.0 if name is None else node.failures.delay(name, client.host)
    delay = max(delay, node.parameters["authFailedDelayMs"] / 1000)
    if delay:
        await asyncio.sleep(delay)
    reason = "Authentication failed."
    if client.guard is None and node.access.is_empty:
        reason = "Authentication failed: this server has no users; connect without a user name"
    return CommandError(ErrorCode.AuthenticationFailed, reason)


def mechanisms_of(user: Mapping[str, Any]) -> list[str]:
    """The ways in which a user can log in."""
    return list(user.get("credentials", {}))


def payload_of(value: Any) -> bytes:
    """The bytes of a client's message; raises `ScramError` if it is none."""
    if isinstance(value, bytes):
        return bytes(value)
    if type(value) is str:
        return value.encode()
    raise ScramError("the message is no text")


def _reply(payload: bytes, *, done: bool) -> dict[str, Any]:
    return {"conversationId": CONVERSATION, "done": done, "payload": payload}
