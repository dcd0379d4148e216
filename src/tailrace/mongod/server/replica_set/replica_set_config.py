"""The configuration of the set, which is fixed while it runs."""

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node
    from tailrace.mongod.server.replica_set.member import Member

CONFIG_VERSION = 1
_COLLECTION: Final = "system.replset"


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


async def store_configuration(member: "Member") -> None:
    """Write the configuration to `local.system.replset`, where shells look for it."""
    document = encode(configuration(member))

    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(f"local.{_COLLECTION}")
        if collection is None:
            collection = unit.create_collection("local", _COLLECTION)
        found = unit.find_id(collection, id_key_of(document) or b"")
        if found is None:
            unit.insert(collection, document)
        elif found[1] != document:
            unit.update(collection, found[0], found[1], document, document)

    await member.store.write(work)
