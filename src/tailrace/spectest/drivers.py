"""The change streams that can be tested: Tailrace's own, and PyMongo's."""

import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import PyMongoError

from tailrace.client.sync import watch
from tailrace.spectest.outcome import Mismatch

Document: TypeAlias = dict[str, Any]
Watched: TypeAlias = MongoClient[Document] | Database[Document] | Collection[Document]

PATIENCE: Final = 10.0
"""Seconds that an expected event may take; it is there in milliseconds, but machines can be busy."""


class Stream(Protocol):
    """What the runners use of a change stream."""

    @property
    def alive(self) -> bool:
        """Whether more events may come."""

    def try_next(self) -> Document | None:
        """An event, or None."""

    def close(self) -> None:
        """End it."""


Driver: TypeAlias = Callable[..., Stream]


def _by_tailrace(target: Watched, pipeline: list[Document], **options: Any) -> Stream:
    return watch(target, pipeline, **options)


def _by_pymongo(target: Watched, pipeline: list[Document], **options: Any) -> Stream:
    return target.watch(pipeline, **options)


DRIVERS: Final[dict[str, Driver]] = {"tailrace": _by_tailrace, "pymongo": _by_pymongo}


def next_event(stream: Stream) -> Document:
    """The next event of a stream that must have one, or the error that it ends with."""
    deadline = time.monotonic() + PATIENCE
    while stream.alive:
        event = stream.try_next()
        if event is not None:
            return event
        if time.monotonic() > deadline:
            raise Mismatch(f"no event came within {PATIENCE:.0f} seconds")
    raise Mismatch("the stream ended before the event that was expected")


def error_code(error: Exception) -> int | None:
    """The server's code in an error, if the server sent it."""
    details = error_details(error)
    return None if details is None else details.get("code")


def error_details(error: Exception) -> Document | None:
    """The server's answer in an error; None for an error of the driver itself."""
    details = getattr(error, "details", None) if isinstance(error, PyMongoError) else None
    return details if isinstance(details, dict) and "code" in details else None
