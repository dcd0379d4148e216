"""Users of the source log in here: the source checks the log-in, and says what the user may do.

The messages of the log-in are passed on (`relay.py`). The rights are those that the source lists for the
user. They are asked for again and again while the user is logged in, so that a revoked right ends.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakSet

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, TailraceError
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.front.relay import Relay
from tailrace.mongod.server.access import login
from tailrace.mongod.server.access.login import PendingLogin, RefusedLoginError
from tailrace.mongod.server.access.principals import Principal, stored_principals
from tailrace.mongod.server.access.privileges import Privileges, resource_of
from tailrace.mongod.server.access.scram import MECHANISMS, ClientFirst
from tailrace.mongod.server.access.stored import LoggedIn, StoredAccess
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.dispatch.context import Context
from tailrace.pipeline.failure import failure_of

REFRESH_SECONDS: Final = 5.0
"""How often the rights of those who are logged in are asked for."""
_COMPONENT: Final = "ACCESS"

Details = Mapping[str, Any]


class SourceUser(LoggedIn):
    """A user of the source who has logged in."""

    def __init__(self, users: "SourceUsers", principal: Principal, user: Details) -> None:
        super().__init__(users.access, principal, user)
        self._users = users

    @property
    def privileges(self) -> Privileges | None:
        known = self._known
        return None if known is None else known.privileges

    @property
    def roles(self) -> list[Principal]:
        known = self._known
        return [] if known is None else known.roles

    @property
    def _known(self) -> "_Rights | None":
        known = self._users.rights.get(self.principal)
        return known if known is not None and known.id == self._id else None


class _Rights:
    """What the source lists for a user."""

    def __init__(self, user: Details) -> None:
        self.id = user.get("userId")
        self.listed = user.get("inheritedPrivileges", [])
        self.privileges = Privileges((resource_of(each["resource"]), each["actions"]) for each in self.listed)
        self.roles = stored_principals(user.get("inheritedRoles"), "role")


class _RelayedLogin(PendingLogin):
    """A log-in whose messages the source checks."""

    __slots__ = ("mechanism", "number", "principal", "relay")

    def __init__(self, relay: Relay, principal: Principal, mechanism: str, number: Any) -> None:
        self.relay = relay
        self.principal = principal
        self.mechanism = mechanism
        self.number = number


class SourceUsers:
    def __init__(self, source: FrontedDeployment, access: StoredAccess, log: Logbook) -> None:
        """``access`` are the users of this server, which come first if both have the name."""
        self.access = access
        self.rights: dict[Principal, _Rights] = {}
        self._source = source
        self._log = log
        self._logged_in: WeakSet[SourceUser] = WeakSet()

    async def mechanisms(self, principal: Principal) -> list[str]:
        """The ways in which a user of the source can log in; none if there is no such user."""
        try:
            return await asyncio.to_thread(self._source.login_mechanisms, principal.identity)
        except TailraceError:
            return []  # then the log-in fails, and its client sees the reason

    # -- log in ---------------------------------------------------------------------------------------------

    async def begin(self, context: Context, payload: Any) -> dict[str, Any] | None:
        """Pass on the first message of a log-in; None if it is for this server to answer."""
        mechanism = context.command["mechanism"]
        if mechanism not in MECHANISMS:
            return None
        principal = Principal(ClientFirst.parse(login.payload_of(payload)).user, context.database)
        if self.access.user(principal) is not None:
            return None
        before, context.client.conversation = context.client.conversation, None
        if isinstance(before, _RelayedLogin):
            before.relay.close()
        host, port = await asyncio.to_thread(self._source.server)
        relay = await Relay.open(host, port, self._source.uri)
        pending = _RelayedLogin(relay, principal, mechanism, None)
        passed: dict[str, Any] = {
            name: context.command[name]
            for name in ("mechanism", "payload", "options")
            if name in context.command
        }
        return await self._pass_on(context, pending, {"saslStart": 1, **passed})

    async def go_on(self, context: Context, number: int, payload: Any) -> dict[str, Any] | None:
        """Pass on a further message; logs the user in after the last one."""
        pending, context.client.conversation = context.client.conversation, None
        if not isinstance(pending, _RelayedLogin):
            context.client.conversation = pending
            return None
        if number != login.CONVERSATION:
            pending.relay.close()
            raise CommandError(ErrorCode.ProtocolError, "sasl: Mismatched conversation id")
        command = {"saslContinue": 1, "conversationId": pending.number, "payload": payload}
        return await self._pass_on(context, pending, command)

    async def _pass_on(
        self, context: Context, pending: _RelayedLogin, command: dict[str, Any]
    ) -> dict[str, Any]:
        is_open = False
        try:
            reply = await pending.relay.call({**command, "$db": context.database})
            if not reply["ok"]:
                raise _refusal(pending, reply)
            pending.number = reply["conversationId"]
            if reply["done"]:
                await self._log_in(context, pending)
            else:
                context.client.conversation = pending
                is_open = True
        finally:
            if not is_open:
                pending.relay.close()
        return {name: reply[name] for name in ("done", "payload")} | {"conversationId": login.CONVERSATION}

    async def _log_in(self, context: Context, pending: _RelayedLogin) -> None:
        principal = pending.principal
        listed = await asyncio.to_thread(self._source.users, [principal])
        found = listed.get(principal)
        if found is None:
            raise RefusedLoginError(principal, "the source no longer has the user", pending.mechanism)
        self.rights[principal] = _Rights(found)
        user = SourceUser(self, principal, found)
        restrictions = [
            found.get(name, [])
            for name in ("authenticationRestrictions", "inheritedAuthenticationRestrictions")
        ]
        login.log_in(context, user, restrictions, pending.mechanism)
        self._logged_in.add(user)

    # -- rights ---------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Ask the source what those who are logged in may do; what has changed holds from now on."""
        principals = sorted({user.principal for user in self._logged_in})
        if not principals:
            self.rights.clear()
            return
        try:
            listed = await asyncio.to_thread(self._source.users, principals)
        except TailraceError as error:
            failure = failure_of(error)
            if failure.is_source_away:
                return  # until it is back, users keep what they had
            self._log.warning(
                _COMPONENT,
                "Users of the source are logged out; their rights cannot be read",
                "access",
                error=failure.sentence,
            )
            listed = {}
        found = {principal: _Rights(user) for principal, user in listed.items()}
        is_same = found.keys() == self.rights.keys() and all(
            (rights.id, rights.listed) == (self.rights[principal].id, self.rights[principal].listed)
            for principal, rights in found.items()
        )
        self.rights = found
        if not is_same:
            self.access.changed()


def _refusal(pending: _RelayedLogin, reply: Details) -> Exception:
    code, reason = reply.get("code", ErrorCode.AuthenticationFailed), str(reply.get("errmsg"))
    if code == ErrorCode.AuthenticationFailed:
        return RefusedLoginError(pending.principal, f"the source refuses it: {reason}", pending.mechanism)
    return CommandError(code, reason)
