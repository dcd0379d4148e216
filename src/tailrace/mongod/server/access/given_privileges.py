"""Privileges in commands: read, check and combine them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.actions import ACTIONS
from tailrace.mongod.server.access.needs import Right
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.privileges import Resource, namespace, resource_of

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

Held = dict[Resource, set[str]]


def given_privileges(context: "Context") -> Held:
    """The privileges that a command names; raises for the first fault."""
    given = context.command.get("privileges")
    held: Held = {}
    for privilege in given if isinstance(given, list) else ():
        if not isinstance(privilege, dict):
            raise CommandError(ErrorCode.FailedToParse, "a privilege is an object")
        resource = _resource(privilege.get("resource"))
        held.setdefault(resource, set()).update(_actions(privilege.get("actions")))
    return held


def some_privileges(context: "Context") -> Held:
    """The same, of a command that needs at least one."""
    held = given_privileges(context)
    if not held:
        reason = f'{context.name} command requires a non-empty "privileges" array'
        raise CommandError(ErrorCode.BadValue, reason)
    return held


def stored_privileges(document: Mapping[str, Any]) -> Held:
    """The privileges of a stored role."""
    held: Held = {}
    for privilege in document.get("privileges", []):
        held.setdefault(resource_of(privilege["resource"]), set()).update(privilege["actions"])
    return held


def check_place(role: Principal, held: Iterable[Resource]) -> None:
    """Refuse privileges outside of a role's database, unless it is admin."""
    for resource in held:
        if role.database not in ("admin", resource.database):
            reason = (
                f"Roles on the '{role.database}' database cannot be granted privileges "
                "that target other databases or the cluster"
            )
            raise CommandError(ErrorCode.InvalidRoleModification, reason)


def to_documents(held: Held) -> list[dict[str, Any]]:
    return [
        {"resource": resource.to_document(), "actions": sorted(actions)}
        for resource, actions in held.items()
        if actions
    ]


def granting(held: Iterable[Resource], action: str = "grantRole") -> Iterable[Right]:
    """The rights that are needed to grant privileges: on their databases, or else on admin."""
    return (Right(namespace(resource.database or "admin"), (action,)) for resource in held)


def _resource(given: Any) -> Resource:
    if not isinstance(given, dict):
        raise CommandError(ErrorCode.FailedToParse, "missing resource field")
    for name in ("cluster", "anyResource"):
        if name in given and given[name] is not True:
            raise CommandError(ErrorCode.FailedToParse, f"{name} must be true when specified")
    if any(type(given.get(name, "")) is not str for name in ("db", "collection", "system_buckets")):
        raise CommandError(ErrorCode.FailedToParse, "the names of a resource are strings")
    if "system_buckets" not in given and ("db" in given) != ("collection" in given):
        reason = "resource must set both db and collection or neither, but not exactly one."
        raise CommandError(ErrorCode.FailedToParse, reason)
    if not {"db", "system_buckets", "cluster", "anyResource"} & given.keys():
        raise CommandError(ErrorCode.FailedToParse, "the resource names nothing")
    return resource_of(given)


def _actions(given: Any) -> list[str]:
    if not isinstance(given, list) or not given:
        raise CommandError(ErrorCode.FailedToParse, "missing actions field")
    for action in given:
        if type(action) is not str or action not in ACTIONS:
            raise CommandError(ErrorCode.BadValue, f"Unrecognized action: {action}")
    return given
