"""Questions about an interval of an oplog that a server answers without reading all of it."""

from collections.abc import Iterator
from typing import Any, Final

from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from tailrace.events.cluster_time import from_timestamp
from tailrace.sources.conditions import times_between
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.deployments.estimates import Density, limit_by_rate

_MOST_COUNTED: Final = 100_000
"""A server skips this many entries in some 50 milliseconds."""


class IntervalMeasures:
    """Seeks in an interval, and its first entries."""

    def __init__(
        self, oplog: Collection[dict[str, Any]], uri: str, session: ClientSession, after: int, through: int
    ) -> None:
        self._oplog = oplog
        self._uri = uri
        self._session = session
        self._after = after
        self._through = through

    def seek(self, time: int) -> int | None:
        """Return the time of the interval's first entry at or after a time."""
        return self._time_of(time - 1, 0)

    def sizes(self, after: int, count: int) -> Iterator[tuple[int, int]]:
        """Return times and sizes of the first ``count`` entries after a time."""
        query, fields = times_between(after, self._through), {"ts": 1, "size": {"$bsonSize": "$$ROOT"}}
        with driver_errors(self._uri, rights.OPLOG):
            for entry in self._oplog.find(query, fields, limit=count, session=self._session):
                yield from_timestamp(entry["ts"]), entry["size"]

    def limit_of(self, count: int) -> int:
        """Return the last time up to which there are no more entries than this; of a large number, about."""
        if count > _MOST_COUNTED:
            return limit_by_rate(self._after, self._through, count, Density(self.seek))
        beyond = self._time_of(self._after, count)
        return self._through if beyond is None else beyond - 1

    def _time_of(self, after: int, skipped: int) -> int | None:
        query = times_between(after, self._through)
        with driver_errors(self._uri, rights.OPLOG):
            for entry in self._oplog.find(
                query, {"ts": 1}, sort=[("$natural", 1)], skip=skipped, limit=1, session=self._session
            ):
                return from_timestamp(entry["ts"])
        return None
