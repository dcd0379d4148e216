"""Follow the router's list of the shards of a cluster."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pymongo.read_concern import ReadConcern

from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.members import Member, Members

Document = Mapping[str, Any]


class ShardList:
    """The members of a cluster, including those that have left."""

    def __init__(self, members: Members | None = None) -> None:
        self.members = members or Members()
        self.unknown_through = 0
        """When the last of the shards left that were never known here; 0 if there is none."""
        self._seen: tuple[int, ...] = ()

    def may_have_changed(self, *times: int) -> bool:
        """Return whether these times differ from those of the last call: the list may have changed then."""
        seen, self._seen = self._seen, times
        return seen != times

    def refresh(
        self,
        router: Client,
        end_of: Callable[[str], int],
        *,
        clock: Document | None = None,
        time: int | None = None,
    ) -> bool:
        """Read the list as it was at a cluster time, or later; return whether there are new shards.

        ``clock`` is a `$clusterTime` that is not before ``time``. ``end_of`` asks a shard that has left for
        the time of its last entry; it is needed on MongoDB, where the list does not show when that was.
        """
        with router.start_session() as session:
            if clock is not None and time is not None:
                session.advance_cluster_time(clock)
                session.advance_operation_time(to_timestamp(time))
            config = router.get_database("config", read_concern=ReadConcern("majority"))
            listed = list(config.shards.find(session=session))
            removed = list(config.removedShards.find(session=session))
        ends = {shard["_id"]: from_timestamp(shard["removedTime"]) for shard in removed}
        known = self.members.by_name
        present = {shard["_id"] for shard in listed}
        has_lost = any(name not in present for name in self.members.present())
        found = {}
        for shard in listed:
            name = shard["_id"]
            before = known.get(name)
            if before is not None and before.left is None:
                found[name] = Member(shard["host"], before.joined)
            else:
                joined = _joined(shard) if known and not has_lost else 0
                found[name] = Member(shard["host"], joined)
        has_new = any(name not in known or known[name].left is not None for name in found)
        for name, member in known.items():
            if name not in found:
                left = ends.get(name) if member.left is None else member.left
                found[name] = Member(member.host, member.joined, end_of(name) if left is None else left)
        for shard in removed:  # a shard of Tailrace runs until it has been read
            name, host = shard["_id"], shard.get("host")
            if host:
                found[name] = replace(found.get(name, Member(host, left=ends[name])), host=host)
        self.members = Members(found)
        self.unknown_through = max((end for name, end in ends.items() if name not in found), default=0)
        return has_new


def _joined(shard: Document) -> int:
    """When a shard joined, by its entry in the list; 0 if that is not known.

    When a shard has left, and maybe when one begins to leave, MongoDB sets the time on another shard, too.
    Then all entries after the last promise are read.
    """
    time = shard.get("topologyTime")
    return 0 if time is None or shard.get("draining") else from_timestamp(time)
