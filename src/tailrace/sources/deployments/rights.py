"""What the user of a source needs; docs/rights.md has the commands that grant it."""

from typing import Final

NONE: Final = "to connect"
OPLOG: Final = "find on local.oplog.rs"
STREAMS: Final = "changeStream and find on all databases"
PRE_IMAGES: Final = "find on config.system.preimages"
TRANSACTIONS: Final = "find on config.transactions"
REPLICA_SET_CONFIG: Final = "replSetGetConfig on the cluster"
USERS: Final = "viewUser on the databases of the users who log in"
CLUSTER: Final = "find on config.shards, config.removedShards and config.version"


def documents_of(namespace: str) -> str:
    return f"find and listCollections on {namespace}"
