"""Samples of commands about sessions, connections and the server itself."""

from typing import Final

from bson import Binary, Int64, ObjectId, Timestamp

from tests.oracle.arguments.samples import SESSION, UUID, Sample, admin

ADMINISTRATION: Final[tuple[Sample, ...]] = (
    # -- sessions and transactions
    Sample({"startSession": 1}, outcome_only=True),
    Sample({"endSessions": [SESSION]}),
    Sample({"refreshSessions": [SESSION]}),
    Sample({"killSessions": [{"id": Binary(b"y" * 16, 4)}]}),
    Sample({"killAllSessions": [{"user": "u", "db": "d"}]}),
    Sample({"killAllSessionsByPattern": [{"lsid": {"id": UUID, "uid": Binary(bytes(32))}}]}),
    admin(
        {"commitTransaction": 1, "lsid": SESSION, "txnNumber": Int64(1), "autocommit": False},
        {"recoveryToken": {}},
    ),
    admin(
        {"abortTransaction": 1, "lsid": SESSION, "txnNumber": Int64(1), "autocommit": False},
        {"recoveryToken": {}},
    ),
    # -- administration and diagnostics
    Sample({"ping": 1}, {"comment": "x"}),
    Sample(
        {"hello": 1},
        {
            "helloOk": True,
            "compression": ["zlib"],
            "client": {"driver": {"name": "x", "version": "1"}, "os": {"type": "x"}},
            "saslSupportedMechs": "a.b",
            "maxAwaitTimeMS": 1,
            "loadBalanced": True,
            "forShell": True,
            "internalClient": {"minWireVersion": 0, "maxWireVersion": 17},
            "hostInfo": "x",
            "hangUpOnStepDown": True,
            "topologyVersion": {"processId": ObjectId(), "counter": Int64(0)},
            "hangUpOnStepDown ": True,
        },
        outcome_only=True,
    ),
    Sample(
        {"hello": 1, "topologyVersion": {"processId": ObjectId(), "counter": Int64(0)}, "maxAwaitTimeMS": 1},
        {},
        outcome_only=True,
    ),
    Sample({"isMaster": 1}, {"helloOk": True}, outcome_only=True),
    Sample({"buildInfo": 1}, {"comment": "x"}, outcome_only=True),
    Sample({"connectionStatus": 1}, {"showPrivileges": True}),
    Sample({"listCommands": 1}, outcome_only=True),
    Sample({"logout": 1}),
    Sample({"whatsmyuri": 1}, outcome_only=True),
    Sample({"hostInfo": 1}, outcome_only=True),
    Sample({"serverStatus": 1}, {"repl": 1, "metrics": 0}, outcome_only=True),
    admin({"getCmdLineOpts": 1}, outcome_only=True),
    admin({"getLog": "global"}, outcome_only=True),
    admin({"getParameter": 1, "cursorTimeoutMillis": 1}, {"failpoint.maxTimeNeverTimeOut": 1}),
    admin(
        {"getParameter": {"showDetails": True, "allParameters": False}, "ttlMonitorSleepSecs": 1},
        outcome_only=True,
    ),
    admin({"setParameter": 1, "ttlMonitorSleepSecs": 60}, {"nothing": 1}),
    admin({"getClusterParameter": "changeStreamOptions"}),
    admin(
        {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 500}}}}
    ),
    admin({"getDefaultRWConcern": 1}, {"inMemory": True}, outcome_only=True),
    admin(
        {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"}, "defaultWriteConcern": {"w": 1}},
        outcome_only=True,
    ),
    admin(
        {"currentOp": 1, "secs_running": {"$gte": 999}}, {"$all": True, "$ownOps": True}, outcome_only=True
    ),
    admin({"killOp": 1, "op": 123456789}, {"comment": "x"}),
    admin({"configureFailPoint": "maxTimeNeverTimeOut", "mode": "off"}, {"data": {"a": 1}}),
    admin({"appendOplogNote": 1, "data": {"a": 1}}, {"maxClusterTime": Timestamp(1, 1)}),
    admin(
        {"replSetGetConfig": 1},
        {"commitmentStatus": True, "$_internalIncludeNewlyAdded": True},
        outcome_only=True,
    ),
    admin({"replSetGetStatus": 1}, {"initialSync": 1}, outcome_only=True),
)
