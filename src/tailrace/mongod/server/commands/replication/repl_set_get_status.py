"""`replSetGetStatus`: show the state of the set, as this member sees it."""

import time
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import GIVEN_LOOSE_FLAG
from tailrace.mongod.server.emulation.release import WRITTEN_TIMES
from tailrace.mongod.server.replica_set.replica_set_config import CONFIG_VERSION, check_replica_set

if TYPE_CHECKING:
    from tailrace.mongod.server.replica_set.member import Member

_PRIMARY: Final = 1
_SECONDARY: Final = 2
_DOWN: Final = 8
_STATE_NAMES: Final = {_PRIMARY: "PRIMARY", _SECONDARY: "SECONDARY", _DOWN: "(not reachable/healthy)"}


async def run(context: MemberContext) -> Reply:
    arguments = context.arguments()
    arguments.ignore("initialSync")
    arguments.finish()
    node, replication = context.node, context.node.replication
    check_replica_set(node)
    count = len(node.members)
    majority = count // 2 + 1
    position = {"ts": to_timestamp(node.last_write_time()), "t": Int64(replication.term)}
    date = DatetimeMS(node.last_write_date())
    elected_at = DatetimeMS(int(replication.elected_at * 1000))
    before_election = {
        "ts": to_timestamp(int(replication.elected_at) << 32 | 1),
        "t": Int64(replication.term - 1 or -1),
    }
    return {
        "set": replication.set_name,
        "date": DatetimeMS(node.wall.milliseconds()),
        "myState": _PRIMARY if replication.is_primary else _SECONDARY,
        "term": Int64(replication.term),
        **_sync_source(node, node),
        "heartbeatIntervalMillis": Int64(2000),
        "majorityVoteCount": majority,
        "writeMajorityCount": majority,
        "votingMembersCount": count,
        "writableVotingMembersCount": count,
        "optimes": {
            "lastCommittedOpTime": position,
            "lastCommittedWallTime": date,
            "readConcernMajorityOpTime": position,
            "appliedOpTime": position,
            "durableOpTime": position,
            **_if_written({"writtenOpTime": position}, node),
            "lastAppliedWallTime": date,
            "lastDurableWallTime": date,
            **_if_written({"lastWrittenWallTime": date}, node),
        },
        "lastStableRecoveryTimestamp": position["ts"],
        "electionCandidateMetrics": {
            "lastElectionReason": "electionTimeout",
            "lastElectionDate": elected_at,
            "electionTerm": Int64(replication.term),
            "lastCommittedOpTimeAtElection": before_election,
            "lastSeenOpTimeAtElection": before_election,
            "numVotesNeeded": majority,
            "priorityAtElection": 1.0,
            "electionTimeoutMillis": Int64(10000),
            "newTermStartDate": elected_at,
            "wMajorityWriteAvailabilityDate": elected_at,
        },
        "members": [_member(node, number, position, date) for number in range(count)],
    }


def _if_written(fields: dict[str, Any], node: "Member") -> dict[str, Any]:
    """Fields on entries that are written but not applied, for releases that distinguish the two."""
    return fields if node.release.has(WRITTEN_TIMES) else {}


def _sync_source(node: "Member", member: "Member") -> dict[str, Any]:
    """The primary, unless the member is the primary or cannot reach it."""
    primary = node.primary
    if primary is None or primary is member or member.is_cut_off:
        return {"syncSourceHost": "", "syncSourceId": -1}
    return {"syncSourceHost": primary.address, "syncSourceId": node.members.index(primary)}


def _member(node: "Member", number: int, position: dict[str, Any], date: DatetimeMS) -> dict[str, Any]:
    described = node.members[number]
    replication = described.replication
    is_lost = described.is_cut_off and described is not node
    state = _DOWN if is_lost else _PRIMARY if replication.is_primary else _SECONDARY
    member = {
        "_id": number,
        "name": described.address,
        "health": 0.0 if is_lost else 1.0,
        "state": state,
        "stateStr": _STATE_NAMES[state],
        "uptime": 0 if is_lost else int(time.monotonic() - described.started),
        "optime": position,
        "optimeDate": date,
        **_if_written({"optimeWritten": position, "optimeWrittenDate": date}, node),
        "lastAppliedWallTime": date,
        "lastDurableWallTime": date,
        **_if_written({"lastWrittenWallTime": date}, node),
        **_sync_source(node, described),
        "infoMessage": "",
    }
    if state == _PRIMARY:
        elected = int(replication.elected_at)
        member |= {
            "electionTime": to_timestamp(elected << 32 | 1),
            "electionDate": DatetimeMS(elected * 1000),
        }
    member |= {"configVersion": CONFIG_VERSION, "configTerm": replication.term}
    if described is node:
        member["self"] = True
    return member | {"lastHeartbeatMessage": ""}


_FIELDS = old_command({"initialSync": GIVEN_LOOSE_FLAG})

COMMAND = Command(
    "replSetGetStatus",
    run,
    needs=on_cluster("replSetGetStatus"),
    help="Show the state of the set.",
    fields=_FIELDS,
    admin_only=True,
)
