"""One tail of the source's oplog for all streams, in a thread of its own.

It delivers majority committed entries only, so nothing that it delivered can be rolled back. After an
election or an outage it continues after the entry that it delivered last, on a member that has this entry.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, TailraceError, UsageError
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_mark import EntryMark
from tailrace.events.recovered.entries import TERM, UnrecoverableEventError
from tailrace.mongod.front.source_head import SourceHead
from tailrace.mongod.front.source_store import SourceStore
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.pipeline.failure import failure_of
from tailrace.sources.recorded.stream_oplog import UNKNOWN_DIGEST

COMPONENT: Final = "SOURCE"
_PAUSE: Final = 0.2
_SECONDS_TO_END: Final = 1.0


class SourceTail:
    """`start` and `stop` run in the event loop; ``failed`` is called there if the tail cannot go on."""

    def __init__(
        self, store: SourceStore, head: SourceHead, log: Logbook, failed: Callable[[BaseException], None]
    ) -> None:
        self._source = store.source
        self._store = store
        self._head = head
        self._log = log
        self._failed = failed
        self._mark = store.source.newest
        """The last entry that was delivered."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._delivering: Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="tailrace-tail", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread, and wait for it unless the source is away, which would keep it waiting."""
        self._ended.set()
        if self._delivering is not None:
            self._delivering.cancel()
        if self._thread is not None and not self._store.is_away:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _SECONDS_TO_END)

    # -- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                try:
                    self._follow()
                except TailraceError as error:
                    self._check_passing(error)
                self._ended.wait(_PAUSE)
        except BaseException as error:
            if not self._ended.is_set():
                self._loop.call_soon_threadsafe(self._failed, error)

    def _follow(self) -> None:
        """Deliver entries until the source is away, or the tail has to end."""
        if self._source.oplog.has_diverged(self._mark):
            raise UsageError(
                f"the oplog of {self._source.address} no longer has the entry of "
                f"{in_words(self._mark.time)}, term {self._mark.term}, up to which streams were served: the "
                "deployment was restored from a backup; start Tailrace again, and resume with tokens of the "
                "restored deployment"
            )
        try:
            for entries in self._source.oplog.follow(self._mark):
                if self._ended.is_set():
                    return
                self._note_back()
                if entries:
                    self._wait_for(self._store.accept(entries))
                    self._mark = self._source.oplog.mark_of(entries[-1])
        except UnrecoverableEventError as error:
            self._pass(error)
        except CommandError as error:
            if error.code != ErrorCode.ChangeStreamHistoryLost:
                raise
            self._skip()

    def _pass(self, error: UnrecoverableEventError) -> None:
        """Go on after an event that cannot be recorded; a stream that comes there ends with the reason."""
        self._log.error(COMPONENT, "Streams end before an event", "tail", error=str(error))
        self._mark = EntryMark(error.time, TERM, UNKNOWN_DIGEST)
        self._wait_for(self._restart(error.time))

    def _skip(self) -> None:
        """Go on with the newest entry: the source has removed the next ones while it was not read."""
        self._store.refresh_oldest()
        newest = self._source.oplog.newest()
        if newest is None or self._store.truncated_through < self._mark.time:
            return  # it was another member, or the oplog is another one, which is found next
        self._log.warning(
            COMPONENT,
            "The source has removed oplog entries before they were read; streams that need them end",
            "tail",
            after=in_words(self._mark.time),
            oplogBegins=in_words(self._store.truncated_through + 1),
        )
        self._mark = self._source.oplog.mark_of(newest)
        self._wait_for(self._restart(self._mark.time))

    async def _restart(self, time: int) -> None:
        self._store.skip_to(time)
        self._head.restart(time)

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the event loop; the tail goes on when it is done."""
        self._delivering = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._delivering.result()

    def _check_passing(self, error: TailraceError) -> None:
        """Note that the source is away; raises an error that is no reason to wait."""
        failure = failure_of(error)
        if not failure.is_source_away:
            raise error
        if not self._store.is_away:
            self._store.is_away = True
            self._log.warning(COMPONENT, "The source is away; streams wait", "tail", error=failure.sentence)

    def _note_back(self) -> None:
        if self._store.is_away:
            self._store.is_away = False
            self._log.info(COMPONENT, "The source is back", "tail", address=self._source.address)
