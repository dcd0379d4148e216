"""Find cluster times at which a batch may end without dividing a transaction over several shards.

Each shard commits its part of a transaction with its own entry (`events/commit_entry.py`). A batch that ends
at cluster time ``b`` divides the transaction if one shard has committed up to ``b`` and another has not: then
``commitTimestamp <= b < ts`` for the later entry. A time without such an entry is a *whole* time. A batch
that is to end elsewhere ends before the commit timestamps in its way or, if that would be no progress, after
the entries.

At the end of a running cluster's oplogs the later entry may not be written yet. So the shards are also asked
which transactions they hold prepared (`torn_at`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.commit_entry import COMMIT_NAMESPACE, COMMIT_TIMESTAMP, commit_timestamp
from tailrace.events.oplog_entry import parse_entry
from tailrace.sources.conditions import EntryCondition, times_between
from tailrace.sources.in_parallel import asked

COMMITS: Final = EntryCondition(frozenset("c"), frozenset({COMMIT_NAMESPACE}))
"""A condition that every commit meets, and few other entries."""
COMMIT_MARK: Final = COMMIT_TIMESTAMP.encode()
"""Bytes that every commit of several shards contains; documents may contain them, too."""
_PATH: Final = f"o.{COMMIT_TIMESTAMP}"


class Commit(NamedTuple):
    """The entry with which one shard commits its part of a transaction."""

    decided: int
    """`commitTimestamp`, the same on all shards of the transaction."""
    ts: int


def commits_among(entries: Iterable[bytes]) -> list[Commit]:
    found = []
    for raw in entries:
        if COMMIT_MARK not in raw:
            continue
        entry = parse_entry(raw)
        decided = commit_timestamp(entry.o) if COMMITS.accepts(entry.head) else None
        if decided is not None:
            found.append(Commit(decided, entry.ts))
    return found


def whole_time(wanted: int, after: int, commits: Sequence[Commit]) -> int:
    """Return the last whole time up to ``wanted``, or the first one later if that would be no progress.

    ``commits`` are all those later than ``after``, up to a whole time.

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
    while later := [commit.ts for commit in commits if commit.decided <= time < commit.ts]:
        time = max(later)
    return time


class CommitsAhead:
    """The commits between a reader and the end of the oplogs; each is read once while batch follows batch."""

    def __init__(self) -> None:
        self._commits: list[Commit] = []
        self._begin = self._end = 0

    def between(
        self, after: int, through: int, read: Callable[[int, int], Iterable[Commit]]
    ) -> Sequence[Commit]:
        """Return all commits of an interval, and maybe later ones; ``read`` finds those of an interval."""
        if not self._begin <= after <= self._end:
            self._commits, self._begin, self._end = [], after, after
        self._commits = [commit for commit in self._commits if commit.ts > after]
        self._begin = after
        if through > self._end:
            self._commits += read(self._end, through)
            self._end = through
        return self._commits


class OplogQueries(Protocol):
    """What `commits_of` and `torn_at` ask of one running shard."""

    def find_entries(
        self, query: dict[str, Any], fields: dict[str, Any], through: int | None = None
    ) -> Iterable[dict[str, Any]]:
        """Return fields of entries that match a filter: the primary's, or all up to a promised time."""

    def find_sessions(self, query: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """Return the documents of the primary's `config.transactions` that match a filter."""


def commits_of(shard: OplogQueries, after: int, through: int) -> list[Commit]:
    """Return the commits of an interval of a running shard, which finds them itself."""
    query = times_between(after, through) | COMMITS.query() | {_PATH: {"$exists": True}}
    return _commits(shard, query, through)


def torn_at(time: int, shards: Sequence[OplogQueries]) -> list[int]:
    """Return the commit timestamps of the transactions that a batch would divide if it ended at this time.

    Every shard has to have promised the time.
    """
    # In this order: a transaction that is not found prepared has been committed by then, if it ever is.
    late = to_timestamp(time)
    prepared_by = {"state": "prepared", "lastWriteOpTime.ts": {"$lte": late}}
    sessions = asked(lambda shard: shard.find_sessions(prepared_by), shards)
    query = {"ts": {"$gte": to_timestamp(time + 1)}, **COMMITS.query(), _PATH: {"$lte": late}}
    torn = _decided(shards, query)
    prepared = [(shard, each) for shard, found in zip(shards, sessions, strict=True) for each in found]
    for holder, transaction in prepared:
        committed = {
            "ts": {"$gte": transaction["lastWriteOpTime"]["ts"], "$lte": late},
            **COMMITS.query(),
            "lsid": transaction["_id"],
            "txnNumber": transaction["txnNum"],
            _PATH: {"$exists": True},
        }
        torn += _decided([shard for shard in shards if shard is not holder], committed)
    return torn


def _decided(shards: Sequence[OplogQueries], query: dict[str, Any]) -> list[int]:
    found = asked(lambda shard: _commits(shard, query), shards)
    return [commit.decided for commits in found for commit in commits]


def _commits(shard: OplogQueries, query: dict[str, Any], through: int | None = None) -> list[Commit]:
    return [
        Commit(from_timestamp(entry["o"][COMMIT_TIMESTAMP]), from_timestamp(entry["ts"]))
        for entry in shard.find_entries(query, {"ts": 1, _PATH: 1}, through)
    ]
