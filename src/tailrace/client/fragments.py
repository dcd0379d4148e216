"""Events that the server split with `$changeStreamSplitLargeEvent`, put together again.

Each fragment has a token of its own, and some top-level fields of the event; `splitEvent` counts them. The
whole event has the last fragment's token: a stream that goes on behind it has left all of them behind.
"""

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument

from tailrace.client.options import Document

SPLIT: Final = "splitEvent"


class FragmentCollector:
    """Takes events in order; gives those that are whole."""

    def __init__(self) -> None:
        self._fragments: list[Document] = []

    @property
    def is_between(self) -> bool:
        """Whether some fragments of an event are here, and others are still to come."""
        return bool(self._fragments)

    def forget(self) -> None:
        """Drop what was collected: a resumed stream begins the event anew."""
        self._fragments = []

    def add(self, event: Document) -> Document | None:
        """The event that is whole with this one, or None if fragments are missing."""
        split = event.get(SPLIT)
        if not isinstance(split, Mapping):
            self._fragments = []
            return event
        self._fragments.append(event)
        if split.get("fragment") != split.get("of"):
            return None
        fragments, self._fragments = self._fragments, []
        return merged(fragments)


def merged(fragments: list[Document]) -> Document:
    """One event made of its fragments, of the same kind as they are.

    >>> merged([{"_id": 1, "splitEvent": {"fragment": 1, "of": 2}, "ns": {"db": "d"}},
    ...         {"_id": 2, "splitEvent": {"fragment": 2, "of": 2}, "fullDocument": {"x": 1}}])
    {'_id': 2, 'ns': {'db': 'd'}, 'fullDocument': {'x': 1}}
    """
    last = fragments[-1]
    fields: dict[str, Any] = {}
    for fragment in fragments:
        fields |= fragment
    del fields[SPLIT]
    if isinstance(last, RawBSONDocument):
        return RawBSONDocument(bson.encode(fields))
    return fields if type(last) is dict else type(last)(fields)  # type: ignore[call-arg]
