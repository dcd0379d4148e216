"""Watch PyMongo's `MongoClient`, `Database` or `Collection`: the blocking change stream."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self, Unpack

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database

from tailrace.client.driver import client_and_target
from tailrace.client.flow import Flow, R, run
from tailrace.client.options import Keywords, Pipeline
from tailrace.client.stream import ChangeStreamFlow, T


def watch(
    target: MongoClient[T] | Database[T] | Collection[T],
    pipeline: Pipeline = (),
    *,
    session: ClientSession | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> "ChangeStream[T]":
    """Open a change stream on a collection, a database or the whole deployment.

    The options have PyMongo's names. Fields of `$changeStream` that PyMongo has no name for are passed in
    ``stage_options``, fields of the aggregate command in ``command_options``. With ``merge_fragments`` the
    events that `$changeStreamSplitLargeEvent` split are returned whole.

    Read concern and read preference are those of the target. The server accepts the read concern `majority`,
    or none, which means the same.

    Prefer this to an aggregation with a `$changeStream` stage, which does not resume.
    """
    client, what = client_and_target(
        target, MongoClient, Database, Collection, "a client, a database or a collection"
    )
    stream: ChangeStream[T] = ChangeStream(
        target, what, client, pipeline, session, options, merge_fragments=merge_fragments
    )
    stream._run(stream._opening())
    return stream


class ChangeStream(ChangeStreamFlow[T]):
    """An open change stream: an iterator of events, and a context manager that closes it."""

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Wait for the next event; raise `StopIteration` when the stream is closed or invalidated."""
        event = self._take()
        if event is None:
            event = self._run(self._waiting())
            if event is None:
                raise StopIteration
        return event

    next = __next__

    def try_next(self) -> T | None:
        """Return the next event, or None if the server has none after at most one getMore.

        The resume token may be newer even if there is no event: call this to see all of its values.
        """
        event = self._take()
        if event is not None and self._machine.is_alive:
            return event
        return self._run(self._trying(event))

    def close(self) -> None:
        """Free the cursor on the server; a second call does nothing."""
        run(self._closing())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, flow: Flow[R]) -> R:
        with self._time_limit():
            return run(flow)
