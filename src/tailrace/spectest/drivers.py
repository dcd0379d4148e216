"""The change streams that can be tested: Tailrace's and PyMongo's."""

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

EVENT_SECONDS: Final = 10.0
"""How long an expected event may take: usually milliseconds, but machines can be busy."""


class Stream(Protocol):
    """The part of a change stream that the runners use."""

    @property
    def alive(self) -> bool: ...

    def try_next(self) -> Document | None: ...

    def close(self) -> None: ...


Driver: TypeAlias = Callable[..., Stream]


def _by_tailrace(target: Watched, pipeline: list[Document], **options: Any) -> Stream:
    return watch(target, pipeline, **options)


def _by_pymongo(target: Watched, pipeline: list[Document], **options: Any) -> Stream:
    return target.watch(pipeline, **options)


DRIVERS: Final[dict[str, Driver]] = {"tailrace": _by_tailrace, "pymongo": _by_pymongo}


def next_event(stream: Stream) -> Document:
    """Wait for the next event; raise `Mismatch` if there is none, or the stream's error."""
    deadline = time.monotonic() + EVENT_SECONDS
    while stream.alive:
        event = stream.try_next()
        if event is not None:
            return event
        if time.monotonic() > deadline:
            raise Mismatch(f"there was no event within {EVENT_SECONDS:.0f} seconds")
    raise Mismatch("the stream ended before the expected event")


def error_code(error: Exception) -> int | None:
    """The code of an error that the server sent; None for other errors."""
    details = error_details(error)
    return None if details is None else details.get("code")


def error_details(error: Exception) -> Document | None:
    """The reply of the server in an error; None for an error of the driver."""
    details = getattr(error, "details", None) if isinstance(error, PyMongoError) else None
    return details if isinstance(details, dict) and "code" in details else None
