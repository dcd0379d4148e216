"""How far the copy of a collection is: which ranges of keys are in the table, and as of when.

A range that was copied holds the documents as they were at one cluster time, its *as-of* time. A change is
applied to a key if its range was copied, and the change is later than that time. Every other change is in
the copy already, or will be: a range is copied as of a time that is not before the table's position.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.bson.id_key import id_key


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """When a range was read."""

    as_of: int
    """Changes after this cluster time are not in it, or may be: see `settled`"""
    settled: int
    """No change after this cluster time is in it. The same as `as_of` if it was read at one cluster time.
    Else changes between the two are applied to documents that may have them, which ends in the same
    documents when all of them were applied."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """A copy with ``len(bounds) + 1`` ranges; each bound is the least key of the range after it."""

    bounds: tuple[bytes, ...] = ()
    starts: tuple[bytes, ...] = ()
    """The bounds as documents with an `_id`: a key alone does not show the type of its number"""
    done: Mapping[int, CopiedRange] = field(default_factory=dict)
    is_planned: bool = False
    """Whether `bounds` were chosen for this copy"""

    @classmethod
    def planned(cls, starts: Iterable[bytes]) -> "CopyState":
        """A copy that nothing was done of, with bounds at some documents."""
        by_key = dict(sorted((id_key(start), start) for start in starts))
        return cls(tuple(by_key), tuple(by_key.values()), {}, is_planned=True)

    @classmethod
    def empty_at(cls, time: int) -> "CopyState":
        """The state of a collection that had no documents at a cluster time."""
        return cls(done={0: CopiedRange(time, time)}, is_planned=True)

    @property
    def is_complete(self) -> bool:
        return self.is_planned and len(self.done) == len(self.bounds) + 1

    @property
    def settled(self) -> int:
        """The cluster time from which on the ranges that were copied show one moment together."""
        return max((copied.settled for copied in self.done.values()), default=0)

    def is_settling(self, through: int) -> bool:
        """Whether changes after a cluster time may be in the copy already."""
        return any(copied.as_of < copied.settled > through for copied in self.done.values())

    def range_of(self, key: bytes) -> int:
        return bisect_right(self.bounds, key)

    def missing(self) -> list[int]:
        """The ranges that are to be copied."""
        return [number for number in range(len(self.bounds) + 1) if number not in self.done]

    def limits(self, number: int) -> tuple[bytes | None, bytes | None]:
        """Documents with the least `_id` of a range, and with the least one after it; None at the ends."""
        lower = self.starts[number - 1] if number else None
        return lower, self.starts[number] if number < len(self.starts) else None

    def applies(self, key: bytes, time: int) -> bool:
        """Whether a change is to be applied."""
        copied = self.done.get(self.range_of(key))
        return copied is not None and time > copied.as_of

    def has(self, key: bytes, time: int) -> bool:
        """Whether the range of a key was copied as of a cluster time, or later."""
        copied = self.done.get(self.range_of(key))
        return copied is not None and copied.as_of >= time

    def with_range(self, number: int, copied: CopiedRange) -> "CopyState":
        return replace(self, done={**self.done, number: copied})

    def simplified(self, through: int) -> "CopyState":
        """The same state in short, once the table's position is after every as-of time."""
        if not self.is_complete or not self.bounds or through < self.settled:
            return self
        return CopyState.empty_at(self.settled)

    def to_text(self) -> str:
        document: dict[str, Any] = {
            "starts": [start.hex() for start in self.starts],
            "done": {str(number): [copied.as_of, copied.settled] for number, copied in self.done.items()},
            "planned": self.is_planned,
        }
        return json.dumps(document)

    @classmethod
    def from_text(cls, text: str) -> "CopyState":
        """Read what `to_text` wrote; `ValueError` or `KeyError` for other text."""
        document = json.loads(text)
        planned = cls.planned(map(bytes.fromhex, document["starts"]))
        done = {int(number): CopiedRange(*times) for number, times in document["done"].items()}
        return replace(planned, done=done, is_planned=document["planned"])
