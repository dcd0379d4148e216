"""The configuration of the set, which is fixed."""

from typing import TYPE_CHECKING, Any

from bson import Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node
    from tailrace.mongod.server.replica_set.member import Member

CONFIG_VERSION = 1


def check_replica_set(node: "Node") -> None:
    """Refuse a command about the replica set on a standalone server."""
    if not node.replication.is_replica_set:
        raise CommandError(ErrorCode.NoReplicationEnabled, "not running with --replSet")


def configuration(member: "Member") -> dict[str, Any]:
    """As replSetGetConfig shows it."""
    return {
        "_id": member.replication.set_name,
        "version": CONFIG_VERSION,
        "term": member.replication.term,
        "members": [
            {
                "_id": number,
                "host": other.address,
                "arbiterOnly": False,
                "buildIndexes": True,
                "hidden": False,
                "priority": 1.0,
                "tags": {},
                "secondaryDelaySecs": Int64(0),
                "votes": 1,
            }
            for number, other in enumerate(member.members)
        ],
        "protocolVersion": Int64(1),
        "writeConcernMajorityJournalDefault": True,
        "settings": {
            "chainingAllowed": True,
            "heartbeatIntervalMillis": 2000,
            "heartbeatTimeoutSecs": 10,
            "electionTimeoutMillis": 10000,
            "catchUpTimeoutMillis": -1,
            "catchUpTakeoverDelayMillis": 30000,
            "getLastErrorModes": {},
            "getLastErrorDefaults": {"w": 1, "wtimeout": 0},
            "replicaSetId": member.store.set_id,
        },
    }
