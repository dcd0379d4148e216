"""A history as its folder shows it, without the process that builds it."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.asking import words
from tailrace.errors import missing_package
from tailrace.events.cluster_time import seconds_of
from tailrace.places import is_object_store

if TYPE_CHECKING:
    from tailrace.lake.table import HistoryTable

_FOLDER: Final = "history"
_DAY: Final = 86400.0
_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    place: str
    begins: int
    """The cluster times after which, and through which, it is complete."""
    through: int
    events: int
    files: int
    bytes: int
    lag_seconds: float
    bytes_per_day: float | None = None
    """None before it is an hour old: the rate of a few seconds says nothing of a day."""

    @property
    def is_empty(self) -> bool:
        """Whether it was created, and nothing is stored yet."""
        return self.through == 0

    def as_document(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "begins": words.moment(seconds_of(self.begins)),
            "through": None if self.is_empty else words.moment(seconds_of(self.through)),
            "events": self.events,
            "files": self.files,
            "bytes": self.bytes,
            "bytesPerDay": None if self.bytes_per_day is None else round(self.bytes_per_day),
            "lagSeconds": round(self.lag_seconds),
        }

    def in_words(self) -> str:
        if self.is_empty:
            return f"{self.place}: nothing is stored yet"
        growth = "" if self.bytes_per_day is None else f", {words.size(self.bytes_per_day)} a day"
        begins = f"after {words.moment(seconds_of(self.begins))}" if self.begins else "from the beginning"
        events, files = words.counted(self.events, "event"), words.counted(self.files, "file")
        return (
            f"{self.place}: {events} in {files}, {words.size(self.bytes)}{growth}; "
            f"{begins} through {words.moment(seconds_of(self.through))}"
        )


def history_in(place: str) -> "HistoryTable":
    """The history in a folder, or of the data directory of a server; raises `UsageError` if there is none."""
    inside = os.path.join(place, _FOLDER)
    if not is_object_store(place) and os.path.isdir(os.path.join(inside, "_delta_log")):
        place = inside
    try:
        from tailrace.lake.table import HistoryTable
    except ImportError as error:
        raise missing_package("a history", error) from None
    return HistoryTable.open(place)


def facts_of(table: "HistoryTable", now: float) -> HistoryFacts:
    first = [file.first_wall for file in table.files[:1] if file.first_wall is not None]
    seconds = seconds_of(table.through) - first[0] / 1000 if first else 0.0
    return HistoryFacts(
        table.place,
        table.begins,
        table.through,
        table.rows,
        len(table.files),
        table.size,
        max(now - seconds_of(table.through), 0.0) if table.through else 0.0,
        table.size * _DAY / seconds if seconds >= _HOUR else None,
    )


def facts_of_server(section: dict[str, Any]) -> HistoryFacts | None:
    """The facts in the section `history` of a server's status; None if it is not there yet."""
    if not section.get("exists"):
        return None
    return HistoryFacts(
        section["path"],
        section["begins"].time << 32 | section["begins"].inc,
        section["through"].time << 32 | section["through"].inc,
        int(section["events"]),
        int(section["files"]),
        int(section["bytes"]),
        float(section["lagSeconds"]) if section["through"].time else 0.0,
    )
