"""`replSetGetStatus`: the set as its only member sees it."""

import time
from typing import Any, Final

from bson import DatetimeMS, Int64

from tailrace.model.cluster_time import to_timestamp
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.replica_set_config import CONFIG_VERSION, MEMBER_ID, check_replica_set

_PRIMARY: Final = 1
_SECONDARY: Final = 2


async def run(context: Context) -> Reply:
    """Its state, positions and member."""
    arguments = context.arguments()
    arguments.ignore("initialSync")
    arguments.finish()
    server, replication = context.server, context.server.replication
    check_replica_set(server)
    state = _PRIMARY if replication.is_primary else _SECONDARY
    position = {"ts": to_timestamp(server.last_write_time()), "t": Int64(replication.term)}
    date = DatetimeMS(server.last_write_date())
    return {
        "set": replication.set_name,
        "date": DatetimeMS(server.wall.milliseconds()),
        "myState": state,
        "term": Int64(replication.term),
        "syncSourceHost": "",
        "syncSourceId": -1,
        "heartbeatIntervalMillis": Int64(2000),
        "majorityVoteCount": 1,
        "writeMajorityCount": 1,
        "votingMembersCount": 1,
        "writableVotingMembersCount": 1,
        "optimes": {
            "lastCommittedOpTime": position,
            "lastCommittedWallTime": date,
            "readConcernMajorityOpTime": position,
            "appliedOpTime": position,
            "durableOpTime": position,
            "writtenOpTime": position,
            "lastAppliedWallTime": date,
            "lastDurableWallTime": date,
            "lastWrittenWallTime": date,
        },
        "lastStableRecoveryTimestamp": position["ts"],
        "electionCandidateMetrics": {
            "lastElectionReason": "electionTimeout",
            "lastElectionDate": DatetimeMS(int(replication.elected_at * 1000)),
            "electionTerm": Int64(replication.term),
            "numVotesNeeded": 1,
            "priorityAtElection": 1.0,
            "electionTimeoutMillis": Int64(10000),
        },
        "members": [_member(context, state, position, date)],
    }


def _member(context: Context, state: int, position: dict[str, Any], date: DatetimeMS) -> dict[str, Any]:
    server, replication = context.server, context.server.replication
    member = {
        "_id": MEMBER_ID,
        "name": server.member,
        "health": 1.0,
        "state": state,
        "stateStr": "PRIMARY" if state == _PRIMARY else "SECONDARY",
        "uptime": int(time.monotonic() - server.started),
        "optime": position,
        "optimeDate": date,
        "optimeWritten": position,
        "optimeWrittenDate": date,
        "lastAppliedWallTime": date,
        "lastDurableWallTime": date,
        "lastWrittenWallTime": date,
        "syncSourceHost": "",
        "syncSourceId": -1,
        "infoMessage": "",
    }
    if state == _PRIMARY:
        elected = int(replication.elected_at)
        member |= {
            "electionTime": to_timestamp(elected << 32 | 1),
            "electionDate": DatetimeMS(elected * 1000),
        }
    return member | {
        "configVersion": CONFIG_VERSION,
        "configTerm": replication.term,
        "self": True,
        "lastHeartbeatMessage": "",
    }


COMMAND = Command("replSetGetStatus", run, help="Show the state of the set.", admin_only=True)
