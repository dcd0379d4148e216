"""One Parquet file of the history, as the table's log tells of it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A finished file; it is part of the table once it was committed. Can be pickled."""

    path: str
    """Below the table's folder"""
    size: int
    rows: int
    first_token: str
    last_token: str
    first_time: int
    """Cluster times of the first and the last row"""
    last_time: int
    first_wall: int | None
    """The earliest and the latest wall time in milliseconds; None if no row has one"""
    last_wall: int | None
    walls_missing: int
    modified: int
    """Milliseconds since 1970"""

    @property
    def stats(self) -> str:
        """What Delta's readers use to pass over files."""
        least: dict[str, Any] = {"token": self.first_token, "cluster_time": self.first_time}
        greatest: dict[str, Any] = {"token": self.last_token, "cluster_time": self.last_time}
        if self.first_wall is not None and self.last_wall is not None:
            least["wall_time"] = _date(self.first_wall)
            greatest["wall_time"] = _date(self.last_wall)
        return json.dumps({
            "numRecords": self.rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": {"token": 0, "cluster_time": 0, "wall_time": self.walls_missing},
        })  # fmt: skip

    @classmethod
    def from_action(cls, action: dict[str, Any]) -> "AddedFile":
        """From an `add` of the table's log."""
        stats = json.loads(action["stats"])
        least, greatest = stats["minValues"], stats["maxValues"]
        return cls(
            path=action["path"],
            size=action["size"],
            rows=stats["numRecords"],
            first_token=least["token"],
            last_token=greatest["token"],
            first_time=least["cluster_time"],
            last_time=greatest["cluster_time"],
            first_wall=_milliseconds(least.get("wall_time")),
            last_wall=_milliseconds(greatest.get("wall_time")),
            walls_missing=stats.get("nullCount", {}).get("wall_time", 0),
            modified=action["modificationTime"],
        )


def _date(milliseconds: int) -> str:
    """As Delta writes timestamps.

    >>> _date(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_milliseconds(moment: datetime | None) -> int | None:
    """A point in time as BSON counts it."""
    return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def _milliseconds(date: str | None) -> int | None:
    return None if date is None else to_milliseconds(datetime.fromisoformat(date))
