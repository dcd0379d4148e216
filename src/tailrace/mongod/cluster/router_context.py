"""A command under way on a router."""

from typing import TYPE_CHECKING

from tailrace.mongod.server.dispatch.context import Context

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


class RouterContext(Context):
    """A command under way on a router; ``node.cluster`` is what it works on."""

    node: "Router"
