"""Merge the fragments of events that `$changeStreamSplitLargeEvent` split.

Each fragment has its own token and some of the event's top-level fields; `splitEvent` numbers them. The
merged event has the last fragment's token, so that a stream resumed after it repeats no fragment.
"""

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument

from tailrace.client.options import Document

SPLIT: Final = "splitEvent"


class FragmentCollector:
    """Collects fragments until their event is complete."""

    def __init__(self) -> None:
        self._fragments: list[Document] = []

    @property
    def is_between(self) -> bool:
        """Whether some fragments of an event are collected and others are missing."""
        return bool(self._fragments)

    def forget(self) -> None:
        """Drop the fragments: a resumed stream starts again with the first one."""
        self._fragments = []

    def add(self, event: Document) -> Document | None:
        """Take the next event or fragment; return the complete event, or None if fragments are missing."""
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
    """Merge all fragments of one event; the result has their type.

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
