"""The local engine: entries of one or more shards pushed through the stages, in this process.

The caller brings the entries, shard by shard and in order, and takes finished events out; waiting, reading
files and serving sockets are its business. What is pushed in one batch or in many gives the same events.

>>> from tailrace.events.scope import Scope
>>> from tailrace.events.stages.plan import Plan
>>> engine = LocalEngine(Plan.open(Scope.parse_ns("shop"), {}))
>>> engine.push("", [])
>>> engine.drain(), engine.done
([], False)
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.oplog_start import goes_back_to
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.merge_shards import FOREVER, MergeShards
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.stage import Batch, Row
from tailrace.log.stream_output import StreamOutput

_ONE_SHARD: Final[Mapping[str, Lookups]] = {"": Lookups()}


class LocalEngine:
    """One stream over the oplogs of its shards.

    With ``from_oldest`` the first entry pushed for a shard is the oldest one its oplog has: a start point
    before it is history that is lost.
    """

    def __init__(
        self, plan: Plan, lookups: Mapping[str, Lookups] = _ONE_SHARD, *, from_oldest: bool = True
    ) -> None:
        self._plan = plan
        self._shards = {name: plan.shared_part(name, found) for name, found in lookups.items()}
        view = plan.view_part(lookups)
        self._resume = view.resume
        self._output = StreamOutput(plan, view)
        self._merge = MergeShards(self._shards, self._sort_key) if len(self._shards) > 1 else None
        self._finished: set[str] = set()
        self._unchecked = set(self._shards) if from_oldest and plan.start is not None else set()

    @property
    def start_time(self) -> int:
        """The cluster time from which entries are needed."""
        return self._plan.start or 0

    @property
    def done(self) -> bool:
        """Whether the stream was invalidated: all events are out and no more will come."""
        return self._output.is_done

    @property
    def has_resumed(self) -> bool:
        """Whether the event the client's token names was met; True if the token names none."""
        return self._resume.found or not self._resume.is_event

    def push(self, shard: str, entries: Sequence[bytes]) -> None:
        """Hand in the next entries of one shard."""
        if self._output.is_ended or not entries:
            return
        part = self._shards[shard]
        if shard in self._unchecked:
            self._unchecked.discard(shard)
            if not goes_back_to(entries[0], self.start_time):
                self._output.fail(history_lost(self.start_time))
                return
        batch = part(Batch(list(entries)))
        if self._merge is None:
            self._output.accept(batch)
        else:
            self._merge.offer(shard, batch, part.scanned)
            self._output.accept(self._merge.take())

    def finish(self, shard: str) -> None:
        """Say that a shard has no more entries, so that nobody waits for it."""
        self._finished.add(shard)
        if self._merge is not None and not self._output.is_ended:
            self._merge.offer(shard, Batch([]), FOREVER)
            self._output.accept(self._merge.take())

    def drain(self) -> list[bytes]:
        """The events that are finished, as BSON; raises the stream's error once those before it are out."""
        return [row.raw for row in self.drain_rows()]

    def drain_rows(self) -> list[Row]:
        """The same with what they were made from."""
        return cast("list[Row]", self._output.take())  # runs of inserts are added by servers alone

    @property
    def post_batch_resume_token(self) -> bytes:
        """The position of the stream after what was drained, as the token document clients get."""
        return self._output.position(self._scanned)

    @property
    def _scanned(self) -> int:
        """The cluster time up to which all oplogs were read; ended ones hold nobody back."""
        open_shards = [part.scanned for name, part in self._shards.items() if name not in self._finished]
        return min(open_shards) if open_shards else max(part.scanned for part in self._shards.values())

    def _sort_key(self, event: ChangeEvent) -> bytes:
        return resume_token(event, self._resume.version_of(event)).data.encode()
