"""Serve a history besides the oplogs: open it, follow it, and describe it in serverStatus.

The packages that read it are imported only if a server has one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.errors import missing_package
from tailrace.events.cluster_time import in_words, to_timestamp
from tailrace.log.event_log import EventLog
from tailrace.log.oplogs import Oplogs
from tailrace.mongod.server.admin.logbook import Logbook

if TYPE_CHECKING:
    from tailrace.log.history_log import HistoryLog

_TOLERATED: Final = 2
"""Ratio of the oplog's size to its limit above which a warning is logged."""


class ServedHistory:
    """The history of a deployment, and the event log of history and oplogs."""

    def __init__(
        self,
        oplogs: Oplogs,
        path: str | Path,
        head: EventLog | None,
        *,
        log: Logbook,
        images_expired_before: Callable[[], int | None],
    ) -> None:
        """Open the history; without a ``head``, streams see only the history.

        Raises `UsageError` for a history that does not belong to this deployment.
        """
        self._logbook = log
        self._oplogs = oplogs
        self._log = _new_log(oplogs, path, prompt=head is None)
        self._has_warned = False
        self._fault = ""
        self._log.images_expired_before = images_expired_before
        self._log.on_fault = self._report
        self.event_log: EventLog = self._log
        """What streams read."""
        if head is not None:
            from tailrace.log.tiers import Tiers

            self.event_log = Tiers(head, self._log)
        self._log.start()

    async def close(self) -> None:
        """Close the files."""
        await self._log.close()

    async def warn_if_lagging(self) -> None:
        """Log once that the oplog exceeds its size because the history does not have its entries."""
        outgrown = self._oplogs.outgrown
        is_too_large = outgrown > _TOLERATED
        if is_too_large and not self._has_warned:
            self._logbook.warning(
                "HISTORY",
                "The oplog exceeds its size because the history lags; check that the pipeline runs",
                timesItsSize=round(outgrown, 1),
                historyThrough=in_words(self.through),
            )
        self._has_warned = is_too_large

    async def look(self) -> None:
        """Read what was committed to the history since the last call."""
        await self._log.check(at_once=True)

    @property
    def through(self) -> int:
        """The cluster time up to which streams can be served from the history."""
        return self._log.newest

    @property
    def lags(self) -> bool:
        """Whether the oplogs have entries that the history does not have."""
        return self.through < self._oplogs.last_committed

    def status(self) -> dict[str, Any]:
        """The section `history` of serverStatus."""
        table = self._log.table
        shown: dict[str, Any] = {"path": self._log.place, "exists": table is not None}
        if table is not None:
            newest = self._oplogs.last_committed
            lag = max((newest >> 32) - (self.through >> 32), 0)
            shown |= {
                "begins": to_timestamp(table.begins),
                "through": to_timestamp(self.through),
                "lagSeconds": Int64(lag if self.through < newest else 0),
                "events": Int64(table.rows),
                "files": len(table.files),
                "bytes": Int64(table.size),
                "version": Int64(table.version),
            }
        return shown

    def _report(self, error: Exception) -> None:
        """Log a fault, once as long as it is the same."""
        if str(error) != self._fault:
            self._fault = str(error)
            self._logbook.warning("HISTORY", "The history could not be read", error=self._fault)


def _new_log(oplogs: Oplogs, path: str | Path, *, prompt: bool) -> "HistoryLog":
    try:
        from tailrace.log.history_log import HistoryLog
    except ImportError as error:
        raise missing_package("a history", error) from None
    return HistoryLog(oplogs, path, prompt=prompt)
