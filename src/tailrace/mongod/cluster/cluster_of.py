"""The cluster that a router's command works on."""

from typing import TYPE_CHECKING, cast

from tailrace.mongod.server.dispatch.context import Context

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster
    from tailrace.mongod.cluster.router import Router


def cluster_of(context: Context) -> "Cluster":
    """The cluster of the router that runs the command; these commands run on routers alone."""
    return cast("Router", context.server).cluster
