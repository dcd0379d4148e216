"""Which shards a cluster has and had: they join and leave while a query runs.

An offset names the shards that were known when it was made. So an interval between two offsets is read from
the same shards whenever it is read, though the cluster may have others by then. A shard that has left is read
up to the cluster time of its end, and stays in the offsets.

>>> members = Members({"s0": Member("s0/a:1"), "s1": Member("s1/b:2", left=7 << 32)})
>>> members.to_document()
{'s0': {'host': 's0/a:1'}, 's1': {'host': 's1/b:2', 'left': [7, 0]}}
>>> Members.of(members.to_document()) == members
True
>>> list(members.behind(8 << 32))
['s0']
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_INCREMENTS: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One shard: where it is, and until when it was part of the cluster."""

    host: str
    """as the router names it, ``set/host:port,...``"""
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
            left = shown.get("left")
            found[name] = Member(shown["host"], None if left is None else left[0] << 32 | left[1])
        return cls(found)

    def to_document(self) -> dict[str, Any]:
        """As offsets hold it."""
        shown: dict[str, Any] = {}
        for name, member in self.by_name.items():
            shown[name] = {"host": member.host}
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
