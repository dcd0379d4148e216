"""The users and roles of a deployment, as they are stored in its database admin."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.mongod.server.access.builtin_roles import builtin_privileges, is_builtin
from tailrace.mongod.server.access.principals import Principal, stored_principals
from tailrace.mongod.server.access.privileges import Privileges, resource_of
from tailrace.mongod.store.indexes.id_keys import id_key_of

if TYPE_CHECKING:
    from tailrace.mongod.store.store import Store
    from tailrace.mongod.store.writer import Commit

USERS: Final = "system.users"
ROLES: Final = "system.roles"
_NAMESPACES: Final = (f"admin.{USERS}", f"admin.{ROLES}")
_MARK: Final = b"admin.system."
"""What every oplog entry that changes users or roles contains."""

Details = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Granted:
    """What several roles give together."""

    roles: list[Principal]
    """The roles, and those that they contain."""
    privileges: list[Details]
    """As documents."""
    restrictions: list[Any]
    """The addresses that contained roles can be used from."""

    def to_privileges(self) -> Privileges:
        return Privileges((resource_of(each["resource"]), each["actions"]) for each in self.privileges)


class LoggedIn:
    """A user who has logged in on a connection."""

    __slots__ = ("_access", "_generation", "_id", "_privileges", "digest", "principal")

    def __init__(self, access: "StoredAccess", principal: Principal, user: Mapping[str, Any]) -> None:
        self.principal = principal
        self.digest = principal.digest
        self._access = access
        self._id = user.get("userId")
        self._generation = -1
        self._privileges: Privileges | None = None

    @property
    def privileges(self) -> Privileges | None:
        """What the user may do now; None if the user no longer exists."""
        if self._generation != self._access.generation:
            self._generation = self._access.generation
            user = self._access.user(self.principal)
            if user is None or user.get("userId") != self._id:
                self._privileges = None
            else:
                self._privileges = self._access.granted_to(user).to_privileges()
        return self._privileges

    @property
    def roles(self) -> list[Principal]:
        """The roles, and those that they contain."""
        user = self._access.user(self.principal)
        return [] if user is None else self._access.granted_to(user).roles


class StoredAccess:
    """Reads users and roles, and tells who depends on them when they change."""

    def __init__(self, store: "Store") -> None:
        self.store = store
        self.generation = 0
        """Rises with each change."""
        self.on_change: list[Callable[[], None]] = []
        self.lock = asyncio.Lock()
        """Held by commands that change users or roles."""
        self.extra_users: dict[Principal, Details] = {}
        """Users of this process alone, which are not stored."""
        self._collections = self._present()

    def follow(self) -> None:
        """Notice every change, also by other commands than those for users and roles."""
        self.store.on_commit.append(self._committed)

    def changed(self) -> None:
        self.generation += 1
        for listener in self.on_change:
            listener()

    def _committed(self, commit: "Commit") -> None:
        present = self._present()
        is_other = present != self._collections
        self._collections = present
        if is_other or any(_MARK in entry for _, entry in commit.entries):
            self.changed()

    def _present(self) -> list[bytes | None]:
        found = (self.store.catalog.collection(ns) for ns in _NAMESPACES)
        return [None if collection is None else collection.uuid for collection in found]

    # -- reading --------------------------------------------------------------------------------------------

    def user(self, principal: Principal) -> Details | None:
        """The stored document of a user."""
        extra = self.extra_users.get(principal)
        return self._find(USERS, principal) if extra is None else extra

    def role(self, principal: Principal) -> Details | None:
        """The stored document of a role; None for built-in ones."""
        return self._find(ROLES, principal)

    def users(self) -> list[Details]:
        return self._all(USERS)

    def roles(self) -> list[Details]:
        return self._all(ROLES)

    @property
    def is_empty(self) -> bool:
        """Whether there are neither users nor roles; then a client on this machine may create the first."""
        return not self._all(USERS, most=1) and not self._all(ROLES, most=1)

    def has_role(self, principal: Principal) -> bool:
        return is_builtin(principal.name, principal.database) or self.role(principal) is not None

    def granted_to(self, user: Mapping[str, Any]) -> Granted:
        """What the roles of a user give; users of this process alone have privileges of their own."""
        granted = self.granted(stored_principals(user.get("roles"), "role"))
        if any(user is extra for extra in self.extra_users.values()):
            granted.privileges.extend(user["privileges"])
        return granted

    def granted(self, roles: Iterable[Principal]) -> Granted:
        """What roles give together; unknown ones give nothing."""
        found: list[Principal] = []
        privileges: list[Details] = []
        restrictions: list[Any] = []
        waiting = list(roles)
        while waiting:
            role = waiting.pop(0)
            if role in found:
                continue
            if is_builtin(role.name, role.database):
                found.append(role)
                privileges += builtin_privileges(role.name, role.database)
                continue
            document = self.role(role)
            if document is None:
                continue
            found.append(role)
            privileges += document.get("privileges", [])
            restrictions += document.get("authenticationRestrictions", [])
            waiting += stored_principals(document.get("roles"), "role")
        return Granted(found, privileges, restrictions)

    def _find(self, name: str, principal: Principal) -> Details | None:
        with self.store.snapshot() as reader:
            collection = reader.catalog.collection(f"admin.{name}")
            key = id_key_of(encode({"_id": principal.identity}))
            if collection is None or key is None:
                return None
            found = reader.find_id(collection, key)
        return None if found is None else decode(found[1])

    def _all(self, name: str, most: int | None = None) -> list[Details]:
        with self.store.snapshot() as reader:
            collection = reader.catalog.collection(f"admin.{name}")
            if collection is None:
                return []
            found = []
            for _, document in reader.records(collection):
                found.append(decode(document))
                if most is not None and len(found) >= most:
                    break
        return found
