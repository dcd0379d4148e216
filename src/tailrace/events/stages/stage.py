"""The contract of a stage.

A stage is called with a batch and returns a batch. It never waits, pulls, sleeps, opens a file or a socket:
what it has to look up is passed in (`lookups.py`). What it remembers between batches can be rebuilt from a
resume token and the log. It may change the items of the batch it was given, but not items of earlier ones.

The end of a stream is a value, not an exception: a batch has the error that follows its items, or the mark
that nothing follows them. A stage processes the items first and passes the rest on; so everything before an
error is delivered, in every engine and for every batch size.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token, token_document
from tailrace.events.layout.event import leading_token
from tailrace.events.resume_token import ResumeToken

T = TypeVar("T")
U = TypeVar("U")


@dataclass(slots=True)
class Batch(Generic[T]):
    """Some items in order, and how the stream continues after them."""

    items: list[T]
    failure: CommandError | None = None
    """Raised after the items are delivered."""
    failed_at: int = 0
    """Cluster time of the entry that failed; what other shards have before it is still delivered."""
    closed_by: ChangeEvent | None = None
    """The invalidate event that ended the stream, among the items or not."""

    def having(self, items: list[U], failure: CommandError | None = None, failed_at: int = 0) -> "Batch[U]":
        """Return the batch with other items; a failure given here comes before the one it had."""
        if failure is not None:
            return Batch(items, failure, failed_at)
        return Batch(items, self.failure, self.failed_at, self.closed_by)


Stage: TypeAlias = Callable[[Batch[T]], Batch[U]]


class Row:
    """An event as this stream shows it: the last stages work on these."""

    __slots__ = ("event", "fragment", "raw", "version")

    def __init__(self, event: ChangeEvent, version: int, raw: bytes, fragment: int | None = None) -> None:
        self.event = event
        self.version = version
        self.raw = raw
        self.fragment = fragment

    @property
    def cluster_time(self) -> int:
        """When the change was committed."""
        return self.event.entry.ts

    @property
    def token(self) -> ResumeToken:
        """The resume token of this event or fragment."""
        token = resume_token(self.event, self.version)
        return token if self.fragment is None else token.with_fragment(self.fragment)

    @property
    def token_document(self) -> bytes:
        """The resume token as the BSON document that clients get as `_id`."""
        if self.fragment is not None:
            return self.token.to_bson()
        raw = self.raw
        shown = self.event.shown
        token = leading_token(raw) if shown is not None and shown[2] is raw else None
        return token_document(self.event, self.version) if token is None else token


class VerbatimRow:
    """An event that is shown as it was stored or rendered for all streams of its shape; it has no object.

    It is a document change outside of transactions, in the current version of tokens.
    """

    __slots__ = ("cluster_time", "raw")
    fragment = None

    def __init__(self, raw: bytes, cluster_time: int) -> None:
        self.raw = raw
        self.cluster_time = cluster_time

    @property
    def token_document(self) -> bytes:
        """The resume token as the BSON document that clients see as `_id`."""
        token = leading_token(self.raw)
        assert token is not None, "document changes outside of transactions begin with their token"
        return token


def run_stages(batch: Batch[T], stages: Iterable[Stage[T, T]]) -> Batch[T]:
    """Send a batch through stages of one item type, one after the other."""
    for stage in stages:
        batch = stage(batch)
    return batch
