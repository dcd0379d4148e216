"""The context of a command on a router."""

from typing import TYPE_CHECKING

from tailrace.mongod.server.dispatch.context import Context

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


class RouterContext(Context):
    """A running command on a router; ``node`` is the router."""

    node: "Router"
