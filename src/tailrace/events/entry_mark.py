"""What identifies an oplog entry, so that it is recognized later.

An oplog goes on after its newest entry. A reader that has come up to there checks, before it reads on, that
the entry is still the same: a deployment that was restored from a backup has another entry there, or none.
"""

from dataclasses import dataclass
from hashlib import sha256

from tailrace.events.oplog_entry import parse_entry


@dataclass(frozen=True, slots=True)
class EntryMark:
    """Time and term of an entry, and a digest of its bytes."""

    time: int
    term: int
    digest: int

    @classmethod
    def of(cls, raw: bytes) -> "EntryMark":
        entry = parse_entry(raw)
        return cls(entry.ts, entry.term, digest_of(raw))


def digest_of(data: bytes) -> int:
    """Return a digest that fits into a signed 64-bit number."""
    return int.from_bytes(sha256(data).digest()[:8], "big") >> 1
