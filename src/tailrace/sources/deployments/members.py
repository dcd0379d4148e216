"""The shards that a cluster has and had; they join and leave while a query runs.

An offset names the shards that were known when it was made. So an interval between two offsets is read from
the same shards whenever it is read, though the cluster may have others by then. A shard that joins is read
since the cluster time it joined at, one that has left until the time of its end; it stays in the offsets.

>>> members = Members({"s0": Member("s0/a:1"), "s1": Member("s1/b:2", left=7 << 32)})
>>> members.to_document()
{'s0': {'host': 's0/a:1'}, 's1': {'host': 's1/b:2', 'left': [7, 0]}}
>>> Members.of(members.to_document()) == members
True
>>> list(members.with_entries_after(8 << 32))
['s0']
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.events.cluster_time import from_pair, to_pair


@dataclass(frozen=True, slots=True)
class Member:
    """One shard."""

    host: str
    """As the router names it, ``set/host:port,...``."""
    joined: int = 0
    """The cluster time after which it is read; 0 if it was there before this source."""
    left: int | None = None
    """The cluster time after which it has no entries; None while it is a member."""


@dataclass(frozen=True, slots=True)
class Members:
    """Shards by name, in the order in which they were found."""

    by_name: Mapping[str, Member] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Members":
        """Read what `to_document` wrote."""
        found = {}
        for name, shown in document.items():
            joined = from_pair(shown["joined"]) if "joined" in shown else 0
            left = from_pair(shown["left"]) if "left" in shown else None
            found[name] = Member(shown["host"], joined, left)
        return cls(found)

    def to_document(self) -> dict[str, Any]:
        """Return the membership that offsets contain."""
        shown: dict[str, Any] = {}
        for name, member in self.by_name.items():
            shown[name] = {"host": member.host}
            if member.joined:
                shown[name]["joined"] = to_pair(member.joined)
            if member.left is not None:
                shown[name]["left"] = to_pair(member.left)
        return shown

    def __getitem__(self, name: str) -> Member:
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def present(self) -> list[str]:
        """Return the shards that the cluster has now."""
        return [name for name, member in self.by_name.items() if member.left is None]

    def with_entries_after(self, after: int) -> Iterator[str]:
        """Return the shards that may have entries after a cluster time."""
        for name, member in self.by_name.items():
            if member.left is None or member.left > after:
                yield name

    def with_all(self, others: "Members") -> "Members":
        """Return these, and those of ``others`` that are not among them."""
        return Members({**others.by_name, **self.by_name})
