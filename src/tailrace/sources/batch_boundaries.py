"""Where a micro-batch may end without tearing a transaction of several shards apart.

Each shard commits its part of such a transaction with an entry of its own, at a time of its own; the entries
have the same `commitTimestamp`, which is not later than any of them. A batch that ends at cluster time ``b``
tears a transaction apart if one shard has committed up to ``b`` and another one has not. Then
``commitTimestamp <= b < ts`` for the later entry. So a time is a *whole* one if there is no such entry, and
whoever wants to end at another time goes back before the commit timestamps in its way, or on behind the
entries.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.events.oplog_entry import parse_entry
from tailrace.sources.conditions import EntryCondition

COMMITS: Final = EntryCondition(frozenset("c"), frozenset({"admin.$cmd"}))
"""Among the entries that meet it are all commits"""
COMMIT_TIME: Final = b"commitTimestamp"
"""The name of the field that tells a commit of several shards; documents may hold these bytes, too"""
_read_time = rawbson.UINT64_LE.unpack_from


class Commit(NamedTuple):
    """The entry with which one shard commits its part of a transaction."""

    decided: int
    """`commitTimestamp`, the same on all shards of the transaction"""
    ts: int


def commits_among(entries: Iterable[bytes]) -> list[Commit]:
    """The commits among raw entries."""
    found = []
    for raw in entries:
        if COMMIT_TIME not in raw:  # documents may hold these bytes too
            continue
        entry = parse_entry(raw)
        if COMMITS.accepts(entry.head):
            for kind, name, start, _ in rawbson.elements(entry.o):
                if name == COMMIT_TIME and kind == rawbson.TIMESTAMP:
                    found.append(Commit(_read_time(entry.o, start)[0], entry.ts))
    return found


def whole_time(wanted: int, after: int, commits: Sequence[Commit]) -> int:
    """The last whole time up to ``wanted``, or the first one behind it if that would be no progress.

    ``commits`` are all those behind ``after`` up to a whole time.

    >>> commits = [Commit(5, 6), Commit(5, 9), Commit(8, 11)]
    >>> whole_time(4, 0, commits), whole_time(10, 0, commits), whole_time(10, 4, commits)
    (4, 4, 11)
    """
    time = wanted
    while in_way := [commit.decided for commit in commits if commit.decided <= time < commit.ts]:
        time = min(in_way) - 1
    if time > after:
        return time
    time = wanted
    while behind := [commit.ts for commit in commits if commit.decided <= time < commit.ts]:
        time = max(behind)
    return time


class CommitsAhead:
    """The commits that lie before a reader who goes on from batch to batch; each is looked for once."""

    def __init__(self) -> None:
        self._commits: list[Commit] = []
        self._begin = self._end = 0

    def between(
        self, after: int, through: int, read: Callable[[int, int], Iterable[Commit]]
    ) -> Sequence[Commit]:
        """All commits of an interval, and maybe later ones; ``read`` finds those of an interval."""
        if not self._begin <= after <= self._end:
            self._commits, self._begin, self._end = [], after, after
        self._commits = [commit for commit in self._commits if commit.ts > after]
        self._begin = after
        if through > self._end:
            self._commits += read(self._end, through)
            self._end = through
        return self._commits
