"""Which shards a cluster has and had: they join and leave while a query runs.

An offset names the shards that were known when it was made. So an interval between two offsets is read from
the same shards whenever it is read, though the cluster may have others by then. A shard that joins is read
from the cluster time it joined at, one that has left up to the time of its end; it stays in the offsets.

>>> members = Members({"s0": Member("s0/a:1"), "s1": Member("s1/b:2", left=7 << 32)})
>>> members.to_document()
{'s0': {'host': 's0/a:1'}, 's1': {'host': 's1/b:2', 'left': [7, 0]}}
>>> Members.of(members.to_document()) == members
True
>>> list(members.behind(8 << 32))
['s0']
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_INCREMENTS: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One shard: where it is, and until when it was part of the cluster."""

    host: str
    """as the router names it, ``set/host:port,...``"""
    joined: int = 0
    """the cluster time behind which it counts; 0 for one that nobody here has seen join"""
    left: int | None = None
    """the cluster time behind which it has nothing to tell any more; None as long as it is there"""


@dataclass(frozen=True, slots=True)
class Members:
    """Shards by name, in the order they were met."""

    by_name: Mapping[str, Member] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Members":
        """What `to_document` wrote."""
        found = {}
        for name, shown in document.items():
            joined, left = (_time(shown.get(end)) for end in ("joined", "left"))
            found[name] = Member(shown["host"], joined or 0, left)
        return cls(found)

    def to_document(self) -> dict[str, Any]:
        """As offsets hold it."""
        shown: dict[str, Any] = {}
        for name, member in self.by_name.items():
            shown[name] = {"host": member.host}
            if member.joined:
                shown[name]["joined"] = [member.joined >> 32, member.joined & _INCREMENTS]
            if member.left is not None:
                shown[name]["left"] = [member.left >> 32, member.left & _INCREMENTS]
        return shown

    def __getitem__(self, name: str) -> Member:
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def present(self) -> list[str]:
        """The shards that the cluster has now."""
        return [name for name, member in self.by_name.items() if member.left is None]

    def behind(self, after: int) -> Iterator[str]:
        """The shards that may have something behind a cluster time."""
        for name, member in self.by_name.items():
            if member.left is None or member.left > after:
                yield name

    def with_all(self, others: "Members") -> "Members":
        """These, and those of others that are not among them."""
        return Members({**others.by_name, **self.by_name})


def _time(shown: Sequence[int] | None) -> int | None:
    return None if shown is None else shown[0] << 32 | shown[1]
