"""One Parquet file of the history, as the table's log describes it."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from tailrace.bson.dates import iso_date, milliseconds_of
from tailrace.events.resume_token import cluster_time_of

COMMANDS_TAG: Final = "tailrace.commands"


@dataclass(frozen=True)
class AddedFile:
    """A finished file; it is part of the table once it was committed. Can be pickled."""

    path: str
    """Below the table's folder"""
    size: int
    rows: int
    first_token: str
    last_token: str
    first_wall: int | None
    """The earliest and the latest wall time in milliseconds; None if no row has one"""
    last_wall: int | None
    walls_missing: int
    modified: int
    """Milliseconds since 1970"""
    commands: int | None = None
    """How many rows may end a stream, such as drops; None in files of older releases"""

    @cached_property
    def first_time(self) -> int:
        """The cluster time of the first row."""
        return cluster_time_of(self.first_token)

    @cached_property
    def last_time(self) -> int:
        """The cluster time of the last row."""
        return cluster_time_of(self.last_token)

    @property
    def stats(self) -> str:
        """The statistics by which Delta's readers skip files."""
        least = {"token": self.first_token, "cluster_time": _second(self.first_time)}
        greatest = {"token": self.last_token, "cluster_time": _second(self.last_time)}
        if self.first_wall is not None and self.last_wall is not None:
            least["wall_time"] = iso_date(self.first_wall)
            greatest["wall_time"] = iso_date(self.last_wall)
        return json.dumps({
            "numRecords": self.rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": {"token": 0, "cluster_time": 0, "wall_time": self.walls_missing},
        })  # fmt: skip

    @property
    def tags(self) -> dict[str, str]:
        """What the log has of the file besides."""
        return {} if self.commands is None else {COMMANDS_TAG: str(self.commands)}

    @property
    def deletion_vector(self) -> None:
        """No row of a history is deleted."""

    @classmethod
    def from_action(cls, action: dict[str, Any]) -> "AddedFile":
        """From an `add` of the table's log."""
        stats = json.loads(action["stats"])
        least, greatest = stats["minValues"], stats["maxValues"]
        commands = (action.get("tags") or {}).get(COMMANDS_TAG)
        return cls(
            path=action["path"],
            size=action["size"],
            rows=stats["numRecords"],
            first_token=least["token"],
            last_token=greatest["token"],
            first_wall=_milliseconds(least.get("wall_time")),
            last_wall=_milliseconds(greatest.get("wall_time")),
            walls_missing=stats.get("nullCount", {}).get("wall_time", 0),
            modified=action["modificationTime"],
            commands=None if commands is None else int(commands),
        )


def _second(cluster_time: int) -> str:
    return iso_date((cluster_time >> 32) * 1000)


def _milliseconds(date: str | None) -> int | None:
    return None if date is None else milliseconds_of(datetime.fromisoformat(date))
