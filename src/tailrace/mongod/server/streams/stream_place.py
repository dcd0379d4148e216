"""Choose where an aggregation runs: on the whole deployment, or on one shard of a router.

A consumer with a worker for each shard opens one stream for each, through a router that it can reach. The
stream has the events that a client of the shard would see.
"""

from typing import TYPE_CHECKING, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.data_directory import CONFIG_SERVER
from tailrace.mongod.server.dispatch.arguments import Arguments

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node

ONE_SHARD: Final = "$_passthroughToShard"
_NOT_A_STREAM: Final = 6273801
_CONFIG_SERVER: Final = 6273803


def place_of_stream(node: "Node", arguments: Arguments) -> "Node":
    """The node whose events a stream shows: the one that received the command, or a shard of a router.

    Nodes that are no routers ignore the name of a shard.
    """
    fields = arguments.nested(ONE_SHARD)
    if fields is None:
        return node
    name = fields.text("shard")
    fields.finish()
    if not node.is_router:
        return node
    if name == CONFIG_SERVER:
        raise CommandError(_CONFIG_SERVER, f"{ONE_SHARD} is for shards; the config server has no streams")
    shard = node.shards.get(name)
    if shard is None:
        raise no_such_shard(name)
    return shard


def no_such_shard(name: str) -> CommandError:
    """ShardNotFound (70)."""
    return CommandError(ErrorCode.ShardNotFound, f"there is no shard '{name}'; listShards lists the shards")


def check_whole_deployment(node: "Node", arguments: Arguments) -> None:
    """Refuse to run other pipelines than streams on one shard."""
    if arguments.has(ONE_SHARD) and node.is_router:
        raise CommandError(_NOT_A_STREAM, f"{ONE_SHARD} is for pipelines that begin with $changeStream")
    arguments.ignore(ONE_SHARD)
