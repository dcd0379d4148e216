"""What a command is to the dispatcher: a function and what must hold before it is called.

A module in `server/commands/` defines one as ``COMMAND``. Everything that commands have in common (sessions,
read and write concern, deadlines, fail points, labels, `$clusterTime`) is done around the function, so that
it reads its own arguments, does one thing and returns its own fields.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Reply: TypeAlias = Mapping[str, Any] | bytes
"""A reply's own fields, without `ok`; as bytes it is a finished BSON document, for replies with batches."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    run: Callable[[Any], Awaitable[Reply]]
    """Gets the context of the node's kind: `Context` if routers share it, `MemberContext` if it needs data,
    `RouterContext` if it needs a cluster."""
    help: str
    aliases: tuple[str, ...] = ()
    admin_only: bool = False
    """Whether it runs on the database `admin` alone."""
    is_read: bool = False
    """Whether it reads users' data: read concern and read preference apply, and a node that is no primary
    refuses it unless the read preference allows secondaries."""
    is_write: bool = False
    """Whether it needs a primary and takes a write concern. It is not cut short when its client goes away."""
    in_transaction: bool = False
    """Whether it may run inside a multi-document transaction."""
    is_retryable_write: bool = False
    """Whether a `txnNumber` outside of a transaction makes it a retryable write."""
    ends_transaction: bool = False
    """Whether it is the commit or abort of one."""
    max_time_is_wait: bool = False
    """Whether `maxTimeMS` says how long to wait for data instead of how long to run."""
    is_test_command: bool = False
    """Whether it is there only if the server was started with test commands."""
    is_always_allowed: bool = False
    """Whether a node that shuts down still answers it, and fail points for all commands pass it by."""
    same_on_router: bool = False
    """Whether a router runs it with the same function: it needs nothing but what every node has."""

    def run_by(self, run: Callable[[Any], Awaitable[Reply]]) -> "Command":
        """The same command, run in another way by a router."""
        return replace(self, run=run)
