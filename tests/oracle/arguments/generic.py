"""Fields that many commands have, or none."""

from typing import Final

from bson import Binary, Int64, Timestamp

from tests.oracle.arguments.samples import DATABASE, UUID, Document

GENERIC: Final[Document] = {
    "maxTimeMS": 9000,
    "comment": "x",
    "readConcern": {"level": "local", "afterClusterTime": Timestamp(1, 1)},
    "writeConcern": {"w": 1, "j": True, "wtimeout": 9000},
    "$readPreference": {
        "mode": "primaryPreferred",
        "tags": [{"a": "b"}],
        "maxStalenessSeconds": 120,
        "hedge": {"enabled": True},
    },
    "$clusterTime": {
        "clusterTime": Timestamp(1, 1),
        "signature": {"hash": Binary(bytes(20)), "keyId": Int64(0)},
    },
    "lsid": {"id": Binary(b"z" * 16, 4)},
    "txnNumber": Int64(1),
    "autocommit": False,
    "startTransaction": True,
    "stmtId": 1,
    "apiVersion": "1",
    "apiStrict": False,
    "apiDeprecationErrors": False,
    "$client": {},
    "$audit": {},
    "$configServerState": {},
    "$configTime": Timestamp(1, 1),
    "$topologyTime": Timestamp(1, 1),
    "$queryOptions": {},
    "tracking_info": {},
    "clientOperationKey": UUID,
    "databaseVersion": {},
    "shardVersion": {},
    "help": False,
    "maxTimeMSOpOnly": 9000,
    "coordinator": True,
    "txnRetryCounter": 0,
    "txnUUID": UUID,
    "mayBypassWriteBlocking": False,
    "allowImplicitCollectionCreation": True,
    "startOrContinueTransaction": True,
    "requestGossipRoutingCache": 1,
    "versionContext": {},
    "traceCtx": {},
    "$traceCtx": {},
    "lastKnownCommittedOpTime": {},
    "nothing": 1,
    "$nothing": 1,
    "$db": DATABASE,
    "$gleStats": 1,
    "operationTime": Timestamp(1, 1),
    "rawData": True,
}
