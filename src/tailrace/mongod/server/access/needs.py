"""What a command needs: the declaration that stands next to its code.

``needs`` of a `Command` is a function of the context that returns the rights which the user must have, all of
them. Only commands that are declared as `OPEN` run before a log-in. A command without a declaration is
refused.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bson import Binary

from tailrace.bson.values import Symbol
from tailrace.mongod.server.access.privileges import CLUSTER, Privileges, Resource, namespace

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context


@dataclass(frozen=True, slots=True)
class Right:
    """Actions on a resource, all of them."""

    resource: Resource
    actions: tuple[str, ...]

    def is_held(self, privileges: Privileges) -> bool:
        return all(privileges.allow(self.resource, action) for action in self.actions)


@dataclass(frozen=True, slots=True)
class Either:
    """One of several rights."""

    rights: tuple[Right, ...]

    def is_held(self, privileges: Privileges) -> bool:
        return any(right.is_held(privileges) for right in self.rights)


NOBODY = Either(())
"""What nobody has."""
Rights: TypeAlias = Iterable[Right | Either]
Needs: TypeAlias = Callable[[Any], Rights]


def OPEN(_context: "Context") -> Rights:  # noqa: N802 - a declaration
    """Everybody may run it, before a log-in, too."""
    return ()


def LOGGED_IN(_context: "Context") -> Rights:  # noqa: N802 - a declaration
    """Every user may run it."""
    return ()


def right(resource: Resource, *actions: str) -> Right:
    return Right(resource, actions)


def either(*rights: Right) -> Either:
    return Either(rights)


def on_cluster(*actions: str) -> Needs:
    """Actions on the deployment as a whole."""
    wanted = (Right(CLUSTER, actions),)
    return lambda _context: wanted


def on_database(*actions: str) -> Needs:
    """Actions on the database that the command is sent to."""
    return lambda context: (Right(namespace(context.database), actions),)


def on_collection(*actions: str) -> Needs:
    """Actions on the collection that the first field names."""
    return lambda context: on_named(context, context.command.get(context.name), *actions)


def on_full_name(*actions: str) -> Needs:
    """Actions on the collection that the first field names with its database."""

    def needs(context: "Context") -> Rights:
        database, _, collection = text_of(context.command.get(context.name)).partition(".")
        return (Right(namespace(database, collection), actions),)

    return needs


def on_named(context: "Context", named: Any, *actions: str) -> Iterator[Right]:
    """Actions on a collection of the command's database, named by text or by its UUID."""
    name = text_of(named)
    if isinstance(named, Binary):
        yield Right(CLUSTER, ("useUUID",))
        collection = context.node.states.catalog.by_uuid(bytes(named))
        if collection is None:
            return  # it is not found, for everybody who may ask
        name = collection.name
    yield Right(namespace(context.database, name), actions)


def text_of(value: Any) -> str:
    """A name; empty for what is none, which the command refuses later."""
    if type(value) is Symbol:
        return value.text
    return value if type(value) is str else ""
