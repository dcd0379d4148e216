"""The flow of a worker: read the stream, deliver the events of its slots, and commit what was acknowledged.

A worker reads the whole stream from the oldest position of its slots, and skips what belongs to others or is
handled. An event without a document (a drop, a rename, an invalidation) is a barrier: it is delivered once,
to the worker of slot 0, after every slot has handled everything before it; and nobody goes on before it is
handled.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pymongo.errors import InvalidOperation, PyMongoError

from tailrace.client.driver import may_pass
from tailrace.client.flow import Flow
from tailrace.client.groups.delivery import Delivery
from tailrace.client.groups.keys import KEYLESS_SLOT, slot_of
from tailrace.client.groups.membership import Membership
from tailrace.client.groups.read_positions import (
    ReadChanges,
    ReadCollection,
    Segments,
    is_reading,
    moved,
    segments_of,
    stream_token,
)
from tailrace.client.groups.snapshot import SnapshotReader
from tailrace.client.groups.state import GroupState, WorkerProgress
from tailrace.client.groups.store import GroupStore
from tailrace.client.options import Document, Keywords, Pipeline
from tailrace.client.outage import Outage
from tailrace.client.processing import with_start
from tailrace.client.token_order import comes_after, order_of

IDLE_SAVE_SECONDS: Final = 10.0
"""How often a position is committed that moved without events of the group."""
POLL_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.5
"""How often a worker that has nothing to commit reads the state of its group."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    group: str
    lease_seconds: float = 10.0
    """A worker that sent no heartbeat for so long has stopped: others take its slots."""
    save_seconds: float = 1.0
    """How long an acknowledged event may wait until its position is committed."""
    max_outage: float | None = None
    """How long a server may be unreachable, in seconds; None for any time."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What differs between blocking code and asyncio."""

    connect: Callable[[str], Any]
    watch: Callable[..., Any]
    sleep: Callable[[float], Any]
    call: Callable[[Callable[[], Any]], Any]
    """Run a function that uses the disk."""


@dataclass(frozen=True, slots=True)
class ConsumerParts:
    """What a worker consists of."""

    target: Any
    store: GroupStore
    pipeline: Pipeline
    options: Keywords
    settings: ConsumerSettings
    shell: Shell
    stream_text: str
    merge_fragments: bool
    clients: list[Any]
    """Opened for this worker, and closed with it."""
    client: Any
    """That of the target."""
    collections: Sequence[ReadCollection] = ()
    """What the group reads before the changes."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A slot that this worker has."""

    epoch: int
    done: Document
    """The events up to this token are skipped: they are handled."""


class ConsumerFlow:
    """Shared by `Consumer` and `AsyncConsumer`: all of their state, and their flows."""

    def __init__(self, parts: ConsumerParts) -> None:
        settings = parts.settings
        self._parts = parts
        self._settings = settings
        self._shell = parts.shell
        self._membership = Membership(parts.store, settings.group, settings.lease_seconds)
        self._outage = Outage(settings.max_outage)
        self._stream: Any = None
        self._reader: SnapshotReader | None = None
        """Reads documents before the stream is opened, if the group begins with a snapshot."""
        self._segments: Segments = ()
        """When the documents were read that this worker, or an earlier one, has come to."""
        self._read_changes = ReadChanges(parts.collections)
        self._slots: dict[int, _Held] = {}
        self._slot_count = 0
        self._waiting: Document | None = None
        """An event that was read, and is delivered when everything before it is handled."""
        self._delivered: list[Delivery] = []
        """What is not acknowledged."""
        self._read_to: Document | None = None
        self._done_to: Document | None = None
        """Everything up to here is acknowledged, or belongs to others."""
        self._acknowledged = 0
        self._committed = 0
        self._settled_at = 0.0
        self._saved_at = 0.0
        self._is_urgent = True
        self._is_paused = False
        self._is_stopped = False

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that this worker has, as it knows."""
        return tuple(sorted(self._slots))

    @property
    def group(self) -> str:
        return self._settings.group

    @property
    def store(self) -> GroupStore:
        return self._parts.store

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def stop(self) -> None:
        """End the flow at the next event; other threads, tasks and signal handlers may call this."""
        self._is_stopped = True

    def ack(self, delivery: Delivery | None = None) -> None:
        """Acknowledge what was delivered: everything, or up to and including one delivery.

        The position is committed within `save_seconds`, and when the consumer is closed.
        """
        if delivery is None:
            count = len(self._delivered)
        else:
            count = self._delivered.index(delivery) + 1 if delivery in self._delivered else 0
        if not count:
            return
        self._acknowledged += count
        last, self._delivered = self._delivered[count - 1], self._delivered[count:]
        self._done_to = last.token if self._delivered else self._read_to

    # -- flows ----------------------------------------------------------------------------------------

    def _opening(self) -> Flow[None]:
        yield from self._insisting(lambda: self._membership.joining(self._parts.stream_text))
        yield from self._settling()

    def _closing(self) -> Flow[None]:
        """Commit what is acknowledged, and give the slots back."""
        try:
            yield from self._membership.leaving(self._progress())
        finally:
            yield from self._drop_stream()

    def _fetching(self, most: int) -> Flow[list[Delivery]]:
        """Wait for events of this worker's slots; empty only after `stop`."""
        if self._delivered:
            raise InvalidOperation("acknowledge the events that were delivered before asking for more")
        while not self._is_stopped:
            yield from self._settle_if_due()
            if self._is_paused or not self._slots:
                yield partial(self._shell.sleep, POLL_SECONDS)
                continue
            yield from self._reading(most)
            if self._delivered:
                return list(self._delivered)
        return []

    # -- the group ------------------------------------------------------------------------------------

    def _settle_if_due(self) -> Flow[None]:
        if self._membership.is_lease_over:
            yield from self._insisting(self._membership.beating)
            self._is_urgent = True
        unsaved = self._acknowledged != self._committed
        seconds = self._settings.save_seconds
        wait = seconds if unsaved else min(seconds, _LOOK_SECONDS)
        if self._is_urgent or time.monotonic() - self._settled_at >= wait:
            yield from self._settling()

    def _settling(self, arrived_at: Document | None = None) -> Flow[GroupState]:
        """Commit what is due, and follow what the group has decided meanwhile."""
        now = time.monotonic()
        unsaved = self._acknowledged != self._committed
        saves = unsaved or arrived_at is not None or now - self._saved_at >= IDLE_SAVE_SECONDS
        acknowledged = self._acknowledged
        progress = self._progress(saves=saves, arrived_at=arrived_at)
        state: GroupState = yield from self._insisting(lambda: self._membership.settling(progress))
        if self._membership.id not in state.member_ids:
            # Others took this worker for stopped. What it did since its last commit is handled again.
            yield from self._drop_stream()
            self._slots = {}
            yield from self._insisting(lambda: self._membership.joining(self._parts.stream_text))
            return (yield from self._settling())
        self._settled_at, self._is_urgent = now, False
        if saves:
            self._saved_at, self._committed = now, acknowledged
        yield from self._adopt(state)
        return state

    def _committing(self) -> Flow[None]:
        """Commit what is acknowledged, also while other events are not."""
        acknowledged, progress = self._acknowledged, self._progress()
        yield from self._insisting(lambda: self._membership.committing(progress))
        self._saved_at, self._committed = time.monotonic(), acknowledged

    def _adopt(self, state: GroupState) -> Flow[None]:
        self._is_paused = state.is_paused
        self._slot_count = len(state.slots)
        found = state.of(self._membership.id)
        kept = {
            number: held
            for number, held in self._slots.items()
            if number in found and found[number].epoch == held.epoch
        }
        gained = found.keys() - kept.keys()
        if gained or not found:
            # The stream is read again from the oldest position; what is handled is skipped.
            yield from self._drop_stream()
            kept = {number: self._slots[number] for number in kept}
        self._slots = kept | {number: _Held(found[number].epoch, found[number].position) for number in gained}

    def _progress(self, *, saves: bool = True, arrived_at: Document | None = None) -> WorkerProgress:
        epochs = {number: held.epoch for number, held in self._slots.items()}
        if not saves:
            return WorkerProgress(epochs, arrived_at=arrived_at)
        self._note_done()
        return WorkerProgress(epochs, {number: held.done for number, held in self._slots.items()}, arrived_at)

    def _note_done(self) -> None:
        """Move the slots to the position up to which everything is acknowledged."""
        position = self._done_to
        if position is not None:
            self._slots = {
                number: _Held(held.epoch, moved(held.done, position, self._segments))
                if comes_after(position, held.done)
                else held
                for number, held in self._slots.items()
            }

    # -- the stream -----------------------------------------------------------------------------------

    def _reading(self, most: int) -> Flow[None]:
        """Deliver up to so many events that have arrived; wait for the server at most once."""
        if self._stream is None and self._reader is None:
            yield from self._open_stream()
        found = self._delivered
        while len(found) < most:
            event = self._waiting
            if event is None:
                event = yield from self._next_event()
                if event is None:
                    return
            number = slot_of(event, self._slot_count)
            if number is None:
                self._waiting = event
                # Everything before it has to be acknowledged first.
                if found or not (yield from self._is_barrier_open(event)):
                    return
                self._waiting = None
                self._deliver(event, KEYLESS_SLOT)
                self._is_urgent = len(self._slots) < self._slot_count  # others wait for it
            else:
                self._deliver(event, number)
            self._note_read()
            if found and (number is None or not self._has_more):
                return

    def _deliver(self, event: Document, number: int) -> None:
        """Deliver an event if it is one of this worker's slots, and not handled."""
        held = self._slots.get(number)
        if held is None or not comes_after(event["_id"], held.done):
            return
        if not self._read_changes.has(event, held.done, self._segments):
            self._delivered.append(Delivery(event, number, held.epoch))

    def _is_barrier_open(self, event: Document) -> Flow[bool]:
        """Whether to go on with an event without a document; the worker of slot 0 delivers it."""
        token = event["_id"]
        slots = self._slots
        first = slots.get(KEYLESS_SLOT)
        if len(slots) == self._slot_count or (first is not None and not comes_after(token, first.done)):
            return True
        state = yield from self._settling(token)
        if self._stream is None or self._is_paused or self.slots != tuple(sorted(slots)):
            return False
        if first is None:
            is_open = not comes_after(token, state.slots[KEYLESS_SLOT].position)
        else:
            is_open = all(slot.has_handled_all_before(token) for slot in state.slots)
        if not is_open:
            yield partial(self._shell.sleep, POLL_SECONDS)
        return is_open

    def _next_event(self) -> Flow[Document | None]:
        """The next event, or None if there is none now."""
        if self._reader is not None and self._reader.is_over:
            if self._delivered:
                return None
            yield from self._open_stream_at(self._reader.position)
        reader = self._reader
        if reader is None and not self._stream.alive:
            # It was invalidated: go on with what has the same name afterwards.
            yield from self._restart_stream()
        stream = self._stream
        event: Document | None
        try:
            if reader is None:
                event = yield stream.try_next
            else:
                event = yield from reader.next_event()
                self._segments = reader.segments
        except PyMongoError as error:
            is_open = reader is not None or stream.alive
            pause = self._outage.next_pause() if is_open and may_pass(error) else None
            if pause is None:
                raise
            yield partial(self._shell.sleep, pause)
            return None
        self._outage.end()
        if event is None:
            self._note_read()
        return event

    @property
    def _has_more(self) -> bool:
        """Whether the next event can be had at once."""
        found: bool = self._stream.pending if self._reader is None else self._reader.has_more
        return found

    def _note_read(self) -> None:
        """The event that was read last is delivered, or is none of this worker's."""
        position = self._stream.resume_token if self._reader is None else self._reader.position
        if position is not None:
            self._read_to = position
            if not self._delivered:
                self._done_to = position

    def _open_stream(self) -> Flow[None]:
        position = min((held.done for held in self._slots.values()), key=order_of)
        self._segments = segments_of(position)
        yield from self._open_stream_at(position)

    def _restart_stream(self) -> Flow[None]:
        position = self._stream.resume_token
        yield self._stream.close
        yield from self._open_stream_at(position)

    def _open_stream_at(self, position: Document) -> Flow[None]:
        parts = self._parts
        self._note_done()
        self._read_to = self._done_to = None
        self._reader = None
        if is_reading(position):
            self._reader = SnapshotReader(
                parts.target, parts.client, parts.collections, position, parts.pipeline
            )
            return
        options = with_start(parts.options, stream_token(position))
        self._stream = yield from self._insisting(
            lambda: _calling(
                partial(
                    self._shell.watch,
                    parts.target,
                    parts.pipeline,
                    merge_fragments=parts.merge_fragments,
                    **options,
                )
            )
        )

    def _drop_stream(self) -> Flow[None]:
        self._note_done()
        stream, self._stream = self._stream, None
        self._reader = None
        self._waiting = self._read_to = self._done_to = None
        self._delivered = []
        if stream is not None:
            yield stream.close

    def _insisting(self, make: Callable[[], Flow[Any]]) -> Flow[Any]:
        """Repeat what fails because no server answers, for as long as an outage may last."""
        while True:
            try:
                result = yield from make()
            except PyMongoError as error:
                pause = self._outage.next_pause() if may_pass(error) and not self._is_stopped else None
                if pause is None:
                    raise
                yield partial(self._shell.sleep, pause)
            else:
                self._outage.end()
                return result


def _calling(call: Callable[[], Any]) -> Flow[Any]:
    return (yield call)
