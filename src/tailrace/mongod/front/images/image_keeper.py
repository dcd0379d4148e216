"""Pre-images that the source did not store: kept for all streams, from the history and from the tail.

One thread owns the versions of documents (`lake/past/versions.py`): it applies what the history has, then
what the log delivers, and looks up what streams ask for. A stream waits until the changes before its event
were applied. The file is in the data directory; after a restart what is missing is applied, and nothing else.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from bson import Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import END_OF_TIME, to_timestamp
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.lake.past.rebuilt_images import VersionsOfHistory, changes_in, hides_changes
from tailrace.lake.past.versions import DocumentVersions, Gap
from tailrace.lake.table import HistoryTable
from tailrace.log.event_log import EntryItem, EventLog
from tailrace.log.waiting import Waiter
from tailrace.mongod.front.time_waiters import TimeWaiters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.net.turns import paced, turns_of
from tailrace.pacing import tick

T = TypeVar("T")

_COMPONENT: Final = "IMAGES"
_WAIT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 10.0
"""How often the history is read, once everything comes from the tail."""
_SNAPSHOT_LOOK_SECONDS: Final = 0.5
"""How often, if it has a snapshot and not the changes before it."""
_EXPIRY_SECONDS: Final = 3600.0
_SECONDS_AFTER_FAULT: Final = 1.0
_EVERYTHING: Final = {"showExpandedEvents": True, "showMigrationEvents": True, "showSystemEvents": True}


class ImageKeeper:
    """`start`, `stop` and `rebuild` run in the event loop."""

    def __init__(self, history: str | Path, log: Logbook) -> None:
        self._history = history
        self._logbook = log
        self._thread = ThreadPoolExecutor(1, "tailrace-images")
        self._waiters = TimeWaiters()
        self._waiter = Waiter(Scope.cluster(), Plan.open(Scope.cluster(), _EVERYTHING).entry_filter())
        self._through = 0
        self._size = 0
        self._ranges = 0
        """of snapshots, which were applied"""
        self._looks_soon = False
        self._fault: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        # Of the thread:
        self._versions: DocumentVersions | None = None
        self._made_from: str | None = None
        self._table: HistoryTable | None = None
        self._of_history: VersionsOfHistory | None = None
        self._reading: Iterator[int] = iter(())
        self._next_expiry = 0.0
        self._path: Path
        self._log: EventLog

    def start(self, event_log: EventLog, path: Path) -> None:
        """Keep up with a log; ``path`` is the file."""
        self._log = event_log
        self._path = path
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="images")

    async def stop(self) -> None:
        """Apply nothing more; streams still find what was applied."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def close(self) -> None:
        """Close the file, after the last stream has ended."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    def look_soon(self) -> None:
        """There is a snapshot to apply; may be called by any thread."""
        self._looks_soon = True

    def status(self) -> dict[str, Any]:
        """For serverStatus."""
        return {
            "through": to_timestamp(self._through),
            "bytes": Int64(self._size),
            "ranges": self._ranges,
            "fault": None if self._fault is None else str(self._fault),
        }

    # -- look-ups -----------------------------------------------------------------------------------------

    def rebuild(self, events: Sequence[ChangeEvent]) -> Sequence[bytes | None]:
        """The documents before some changes; others have their turn until they are found."""
        if not events:
            return ()
        loop = asyncio.get_running_loop()
        turns = turns_of(loop)
        newest = max(event.entry.ts for event in events)
        found: list[bytes | None] | None = None
        while found is None:
            if self._fault is not None:
                raise _unavailable(self._fault)
            if self._through < newest:
                self._waiter.release()
                turns.wait_for(asyncio.run_coroutine_threadsafe(self._reached(newest), loop))
                continue
            try:
                found = turns.wait_for(self._thread.submit(self._find, events, newest))
            except sqlite3.Error as error:
                raise _unavailable(error) from None
        return found

    async def _reached(self, time: int) -> None:
        # It may have been reached since the stream has asked.
        if self._through < time and self._fault is None:
            await self._waiters.wait(time)

    def _find(self, events: Sequence[ChangeEvent], newest: int) -> list[bytes | None] | None:
        """The same in the thread; None if the versions are made again since the stream has asked."""
        if self._versions is None or self._versions.through < newest:
            return None
        return [self._versions.before(event) for event in events]

    # -- keeping up ---------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_history()
                await self._read_log()
            except Exception as error:  # no error may end this task: streams wait for it
                await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        self._through = 0
        await self._run(self._close)
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self._logbook.warning(
                _COMPONENT, "The file of images is damaged; it is made again", error=str(error)
            )
            await self._run(self._remove)
            return
        if str(error) != str(self._fault):
            self._logbook.warning(_COMPONENT, "Images cannot be rebuilt; this is retried", error=str(error))
        self._fault = error
        self._waiters.wake(END_OF_TIME)
        await asyncio.sleep(_SECONDS_AFTER_FAULT)

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _read_history(self) -> bool:
        """Apply all that the history has; return whether there was something."""
        self._looks_soon = False
        await self._run(self._open, self._log.newest)
        before = self._through
        while await self._run(self._read_piece):
            self._moved()
        self._moved()
        await self._expire()
        return self._through != before  # a snapshot may have been found, whose time is earlier

    async def _read_log(self) -> None:
        """Apply what the log delivers, until it is time to read the history."""
        log = self._log
        awaits = self._of_history is not None and self._of_history.awaits_snapshot
        until = monotonic() + (_SNAPSHOT_LOOK_SECONDS if awaits else _LOOK_SECONDS)
        while monotonic() < until and not self._looks_soon:
            place = self._through
            if not log.has_more(place):
                await log.wait(self._waiter, _WAIT_SECONDS)
            elif not (await self._apply_next(place) or await self._read_history()):
                newest = log.newest
                self._logbook.warning(
                    _COMPONENT, "Changes were removed before they were read; images begin again after them"
                )
                await self._apply([Gap(newest)], newest)

    async def _apply_next(self, place: int) -> bool:
        """Apply what the log has after a place; return False if that has to come from the history."""
        try:
            self._log.check_place(place)
            if not self._log.is_loaded(place):
                return False
            changes, through = await paced(self._read, place)
        except CommandError as error:
            if error.code != ErrorCode.CappedPositionLost:
                raise
            return False
        await self._apply(changes, through)
        return True

    async def _read(self, place: int) -> tuple[list[ChangeEvent | Gap], int]:
        log = self._log
        found = log.read(place)
        kept = log.kept.now
        changes: list[ChangeEvent | Gap] = []
        for item in found.items:
            tick()
            events = log.events_of(item)
            if events is not None:
                changes += changes_in(events, kept)
            elif not isinstance(item, EntryItem) or hides_changes(item.entry):
                changes.append(Gap(item.ts))
        return changes, found.scanned

    async def _apply(self, changes: Sequence[ChangeEvent | Gap], through: int) -> None:
        assert self._versions is not None, "it was opened before"
        await self._run(self._versions.apply, changes, through)
        self._moved()

    def _moved(self) -> None:
        assert self._versions is not None, "it was opened before"
        self._fault = None
        self._through = self._versions.through
        self._waiters.wake(self._through)

    async def _expire(self) -> None:
        """Remove what only changes need that the history no longer has."""
        table, versions = self._table, self._versions
        if table is None or versions is None or monotonic() < self._next_expiry:
            return
        self._next_expiry = monotonic() + _EXPIRY_SECONDS
        row: int | None = 0
        while row is not None:
            row = await self._run(versions.expire, table.begins, row)

    # -- in the thread ------------------------------------------------------------------------------------

    def _open(self, newest: int) -> None:
        """Open what is not open, and forget versions that were made from another history.

        Without a history, what happens after ``newest`` is kept.
        """
        if self._table is None and HistoryTable.exists(self._history):
            self._table = HistoryTable.open(self._history)
        elif self._table is not None:
            self._table.refresh()
        table = self._table
        made_from = "the tail" if table is None else f"{table.identity} {table.kept.to_text()}"
        if self._versions is None or made_from != self._made_from:
            self._close()
            self._versions = DocumentVersions(self._path, about=made_from)
            self._made_from = made_from
        if table is None and not self._versions.through:
            self._versions.apply([Gap(newest)], newest)
        if table is not None:
            self._of_history = VersionsOfHistory(table, self._versions)
            self._reading = self._of_history.advance()
        self._size = self._versions.size

    def _read_piece(self) -> bool:
        """Apply the next piece of the history."""
        has_more = next(self._reading, None) is not None
        if not has_more and self._versions is not None:
            self._ranges = self._versions.bases
        return has_more

    def _close(self) -> None:
        self._reading = iter(())
        if self._versions is not None:
            self._versions.close()
        self._versions = self._made_from = None

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm"):
            Path(f"{self._path}{ending}").unlink(missing_ok=True)


def _unavailable(error: Exception) -> CommandError:
    return CommandError(8881104, f"images cannot be rebuilt at present: {error}")
