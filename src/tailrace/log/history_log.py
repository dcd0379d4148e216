"""The event log of the history: what the pipeline has committed to the table, and nothing else.

It is the older tier of a server's log (`tiers.py`), or all of it. The table is read by its own thread, in
pieces that streams at about the same place share; no file access blocks the event loop. New commits are
noticed by checking for the next file of the table's log, often while a stream waits for one.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import PathLike
from typing import Final

import pyarrow as pa

from tailrace.errors import CommandError, HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.promise import Promise, promise
from tailrace.events.recovered.served import is_recorded
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.lake.storage.log_store import open_store
from tailrace.lake.table import HistoryTable
from tailrace.log.event_log import EventLog, LogItem, Slice, VerbatimRun
from tailrace.log.head import place_lost
from tailrace.log.history_reader import HistoryReader
from tailrace.log.oplogs import Oplogs
from tailrace.log.recorded import RecordedItem, RowReader
from tailrace.log.row_names import RowNames
from tailrace.log.segments import Segments
from tailrace.log.waiting import Waiter
from tailrace.namespaces import KeptPeriods

CALM_SECONDS: Final = 0.25
_SECONDS_AFTER_FAULT: Final = 1.0
_MAX_READERS: Final = 64
"""Places at which the table stays open for streams that catch up."""
_SMALL_READERS: Final = 8
_MAX_READ_BYTES: Final = 256 << 20
"""Above this, only a few places stay open: each one holds a part of a row group, some megabytes."""


class HistoryLog(EventLog):
    """The events in the history of a deployment; there may be no history yet."""

    def __init__(self, oplogs: Oplogs, place: str | PathLike[str], *, prompt: bool = True) -> None:
        """With ``prompt``, streams wait for new commits of the history, so these are checked for often."""
        super().__init__(oplogs.lookups)
        self.is_recorded = is_recorded(oplogs.identity)
        self._store = open_store(place)
        self.place = self._store.place
        """The folder or the URL of the history."""
        self.images_expired_before: Callable[[], int | None] = lambda: None
        """Returns the date, in milliseconds, before which pre-images have expired."""
        self.on_fault: Callable[[Exception], None] = lambda _: None
        """Called when the table could not be read; it is retried."""
        self.table: HistoryTable | None = None
        self._oplogs = oplogs
        self._prompt = prompt
        self._newest = promise(0)
        self._next_refresh = 0.0
        self._pieces = Segments()
        self._readers: dict[int, HistoryReader] = {}
        self._rows = RowReader()
        self._names: RowNames | None = None
        self._thread = ThreadPoolExecutor(1, "tailrace-history")
        self._fetching = asyncio.Lock()
        self._checking = asyncio.Lock()
        self._is_wanted = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the history, if there is one, and follow it from now on."""
        self.open()
        self._following = asyncio.get_running_loop().create_task(self._follow(), name="history")

    async def close(self) -> None:
        """Stop following, and close the files."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        self.release()

    def release(self) -> None:
        """Close the files of a log that was not started."""
        self._thread.shutdown()
        self._readers.clear()

    def open(self) -> None:
        """Open the history, if there is one; from now on no entry is removed that it does not hold.

        Raises `HistoryError` for a history that cannot be this deployment's.
        """
        self._oplogs.hold(0)
        self._use(self._found())

    def _found(self) -> HistoryTable | None:
        return HistoryTable(self._store) if HistoryTable.exists(self.place) else None

    def _use(self, table: HistoryTable | None) -> None:
        if table is None:
            return
        check_belongs(table, self._oplogs)
        self.table = table
        self._oplogs.resume(table.through)
        self._moved_to(table.through)

    async def _follow(self) -> None:
        while True:
            try:
                await self._pause()
                await self.check()
            except Exception as error:  # no error may end this task
                self.on_fault(error)
                await asyncio.sleep(_SECONDS_AFTER_FAULT)

    async def _pause(self) -> None:
        """Wait until the next check: a short time while a stream waits."""
        if self._prompt and self.waiters:
            await asyncio.sleep(self._store.poll_seconds)
            return
        self._is_wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(CALM_SECONDS):
                await self._is_wanted.wait()

    async def check(self, *, at_once: bool = False) -> None:
        """Read what was committed since the last check, and wake the streams that see it.

        An object store is not asked more often than it should be, unless ``at_once`` demands it.
        """
        async with self._checking:
            if not (at_once or self._is_worth_a_look()):
                return
            # Now and then in any case: after the log was compacted, the next file never appears.
            loop = asyncio.get_running_loop()
            self._next_refresh = loop.time() + CALM_SECONDS
            if self.table is None:
                self._use(await loop.run_in_executor(self._thread, self._found))
                self.waiters.wake_all()  # streams that came before the history
            else:
                await self._read_commits(self.table)

    def _is_worth_a_look(self) -> bool:
        """A look into a local folder takes microseconds; a request to an object store waits, in a thread."""
        if asyncio.get_running_loop().time() >= self._next_refresh:
            return True
        is_local = self._store.poll_seconds < CALM_SECONDS
        return is_local and (self.table is None or self.table.has_next())

    async def _read_commits(self, table: HistoryTable) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, table.refresh)
        through = table.through
        if through <= self._newest:
            return
        first: Slice | None = None
        if self.waiters:
            first = await loop.run_in_executor(self._thread, self._read_piece, self._newest, through)
        before = self._newest
        self._moved_to(through)
        if first is not None:
            self._pieces.add(before, first)
        self._wake(first)

    def _moved_to(self, through: int) -> None:
        self._newest = promise(through)
        self._oplogs.hold(through)

    def _wake(self, first: Slice | None) -> None:
        """Wake the streams that see something new; all of them if there is more than was read."""
        if first is None or first.scanned < self._newest:
            self.waiters.wake_all()
            return
        for item in first.items:
            self.waiters.offer_events(self.events_of(item))

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def newest(self) -> Promise:
        """The cluster time up to which the history was built."""
        return self._newest

    @property
    def now(self) -> int:
        """At or after everything that has happened, in the history or not yet."""
        return max(self._oplogs.now, self._newest)

    @property
    def begins(self) -> int | None:
        """The cluster time after which the history has everything; None if there is none."""
        return None if self.table is None else self.table.begins

    @property
    def kept(self) -> KeptPeriods:
        """Those of the table."""
        return super().kept if self.table is None else self.table.kept

    def holds_from(self, start: int) -> bool:
        """Return whether everything from a cluster time on is in the history, or will be."""
        begins = self.begins
        if begins is None:
            return self._oplogs.have_entries_from(start)
        return begins == 0 or start > begins

    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost if the history begins after ``start``."""
        if not self.holds_from(start):
            raise history_lost(start)

    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost if what follows a cluster time was removed from the history."""
        begins = self.begins
        if begins is not None and begins > after:
            raise place_lost(after)

    def is_loaded(self, after: int) -> bool:
        """Return whether the next piece is in memory, or there is none."""
        return after >= self._newest or self._pieces.find(after) is not None

    async def fetch(self, after: int, visible: EntryFilter) -> int:
        """Skip what a stream does not see, or read the next piece, in the history's thread."""
        async with self._fetching:
            if self.is_loaded(after):
                return after
            loop = asyncio.get_running_loop()
            end = self._end(after)
            try:
                place = await loop.run_in_executor(self._thread, self._skip, after, end, visible)
                if place > after:
                    return place
                found = await loop.run_in_executor(self._thread, self._read_piece, after, end)
            except (OSError, HistoryError) as error:
                self.on_fault(error)
                return after  # `read` gets the same error, and raises it in the stream
            self._pieces.add(after, found)
            return after

    def _skip(self, after: int, through: int, visible: EntryFilter) -> int:
        """Where the next piece begins in which a stream may see something; only in the history's thread."""
        if self._names is None:
            assert self.table is not None, "a history with a newest time is open"
            self._names = RowNames(self.table)
        return self._names.skip(after, through, visible.ignores)

    def read(self, after: int) -> Slice:
        """Return the next items after a cluster time."""
        if after >= self._newest:
            return Slice((), after)
        found = self._pieces.find(after)
        if found is None:
            try:
                found = self._thread.submit(self._read_piece, after, self._end(after)).result()
            except (OSError, HistoryError) as error:
                raise history_unreadable(error) from None
            self._pieces.add(after, found)
        return _cut_after(found, after)

    def _end(self, after: int) -> int:
        """How far to read: up to the next piece in memory."""
        return min(self._newest, self._pieces.next_start(after) or self._newest)

    def _read_piece(self, after: int, through: int) -> Slice:
        """Read the next piece of the table; only in the history's thread."""
        reader = self._readers.pop(after, None)
        try:
            if reader is None:
                assert self.table is not None, "a history with a newest time is open"
                reader = HistoryReader(self.table, self._rows, after, through)
            found = reader.next_piece()
        except pa.ArrowException as error:
            raise HistoryError(f"a file of the history in {self.place} is damaged: {error}") from None
        if reader.place < reader.through:
            self._readers[reader.place] = reader
            while len(self._readers) > _most_readers():
                del self._readers[next(iter(self._readers))]
        return found

    def run_of(self, item: LogItem) -> VerbatimRun | None:
        """Return the events of an item that are shown as stored."""
        assert isinstance(item, RecordedItem)
        return item.run

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent]:
        """Return the events of an item, without pre-images that have expired."""
        assert isinstance(item, RecordedItem)
        before = item.weight
        events = item.events
        if item.with_images:
            expired = self.images_expired_before()
            if expired is not None:
                item.forget_images(expired)
        self._pieces.add_weight(item.weight - before)
        return events

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until there is something a stream can see; meanwhile new commits are checked for often."""
        self._is_wanted.set()
        return await super().wait(waiter, seconds)


def _most_readers() -> int:
    return _MAX_READERS if pa.total_allocated_bytes() < _MAX_READ_BYTES else _SMALL_READERS


def check_belongs(table: HistoryTable, oplogs: Oplogs) -> None:
    """Raise `HistoryError` unless a history is this deployment's and overlaps its oplogs."""
    table.check_identity(oplogs.identity)
    if not oplogs.have_reached(table.through):
        raise HistoryError(
            f"the history in {table.place} is ahead of the data: it goes up to {in_words(table.through)}, "
            f"the oplog up to {in_words(oplogs.now)}; use the data directory it was built from, or "
            "name another folder for the history"
        )
    # A history that was created and has nothing yet begins with what the oplog has.
    if 0 < table.through < oplogs.truncated_through:
        raise HistoryError(
            f"the history in {table.place} ends at {in_words(table.through)}, and the oplog begins after "
            f"{in_words(oplogs.truncated_through)}: what is between is lost; name another folder, or remove "
            "it to begin a new history"
        )


def history_unreadable(error: Exception) -> CommandError:
    """Return the error of a stream whose next events cannot be read."""
    return CommandError(8881103, f"the history cannot be read: {error}")


def _cut_after(found: Slice, after: int) -> Slice:
    """A piece without what is before a place inside of its first item."""
    first = found.items[0] if found.items else None
    if isinstance(first, RecordedItem) and first.begins <= after:
        return Slice([*first.after(after), *found.items[1:]], found.scanned)
    return found
