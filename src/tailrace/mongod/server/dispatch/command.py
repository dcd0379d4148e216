"""The declaration of a command: its function, and what must hold before the dispatcher calls it.

A module in `server/commands/` defines one as ``COMMAND``. What all commands share (sessions, read and write
concern, deadlines, fail points, labels, `$clusterTime`) is done by the dispatcher around the function, which
reads its own arguments, does one thing and returns its own fields.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tailrace.mongod.server.access.needs import Needs
from tailrace.mongod.server.dispatch.fields import Fields

Reply: TypeAlias = Mapping[str, Any] | bytes
"""A reply's own fields, without `ok`; replies with batches are complete BSON documents, as bytes."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    run: Callable[[Any], Awaitable[Reply]]
    """Gets the context of the node's kind: `Context` if routers share it, `MemberContext` if it needs data,
    `RouterContext` if it needs a cluster."""
    help: str
    needs: Needs | None = None
    """The rights that a user needs, where access is controlled (`access/needs.py`); None: nobody has them."""
    fields: Fields | None = None
    """Its fields, if they are declared; otherwise its function checks what it reads."""
    check_first: Callable[[Any], None] | None = None
    """Gets the context before the arguments that all commands have are checked; after its own fields, unless
    these are checked late."""
    aliases: tuple[str, ...] = ()
    admin_only: bool = False
    """Whether it runs only on the database `admin`."""
    is_read: bool = False
    """Whether it reads users' data: read concern and read preference apply, and a node that is no primary
    refuses it unless the read preference allows secondaries."""
    is_write: bool = False
    """Whether it needs a primary and takes a write concern. It completes even if its client disconnects."""
    in_transaction: bool = False
    """Whether it may run inside a multi-document transaction."""
    is_retryable_write: bool = False
    """Whether a `txnNumber` outside of a transaction makes it a retryable write."""
    ends_transaction: bool = False
    """Whether it is the commit or abort of a transaction."""
    max_time_is_wait: bool = False
    """Whether `maxTimeMS` limits the wait for data instead of the run time."""
    is_test_command: bool = False
    """Whether it exists only on a server that was started with test commands."""
    is_always_allowed: bool = False
    """Whether a node that shuts down still answers it, and fail points for all commands leave it out."""
    has_no_session: bool = False
    """Whether it needs no authentication on a server that has some; it belongs to no session."""
    ignores_transactions: bool = False
    """Whether it runs outside of a transaction that it is sent in."""
    same_on_router: bool = False
    """Whether a router runs it with the same function: it needs nothing but what every node has."""

    def run_by(self, run: Callable[[Any], Awaitable[Reply]]) -> "Command":
        """The same command, run in another way by a router."""
        return replace(self, run=run)
