"""Positions of a group that begins with a snapshot: which documents were read, and when.

A *place* is where a document is in the snapshot: the number of its collection and the key of its `_id`, as
text that sorts in the order in which documents are read. While a slot reads, its position is the token at
which the group began, with the place that it has come to. The documents up to the `through` of a segment,
and after the segment before it, were read at its time: changes of them up to this time are not delivered.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson import Int64, Timestamp

from tailrace.bson.documents import encode
from tailrace.bson.id_key import id_key
from tailrace.client.options import Document
from tailrace.client.token_order import READ, text_of
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.resume_token import cluster_time_of

END: Final = "g"
"""The place after all documents: it sorts after every hex digit."""
_SEGMENTS: Final = "segments"


class ReadCollection(NamedTuple):
    """A collection of a snapshot."""

    namespace: str
    uuid: str
    """What tells it from a later one of the same name"""


class Segment(NamedTuple):
    """Documents that were read at one cluster time."""

    through: str
    """The place of the last one."""
    at: int


Segments = tuple[Segment, ...]


def first_position(token: Document) -> dict[str, Any]:
    """Where a group begins that reads the documents first."""
    return {**token, READ: "", _SEGMENTS: []}


def place_of(collection: int, document: bytes) -> str:
    """The place of a document, or of a document key.

    >>> place_of(1, encode({"_id": 5}))
    '000000012b0a04'
    """
    return f"{collection:08x}{id_key(document).hex()}"


def is_reading(position: Document) -> bool:
    return bool(position.get(READ, END) != END)


def stream_token(position: Document) -> dict[str, Any]:
    """The resume token of a position."""
    return {name: value for name, value in position.items() if name not in (READ, _SEGMENTS)}


def segments_of(position: Document) -> Segments:
    return tuple(Segment(through, int(at)) for through, at in position.get(_SEGMENTS, ()))


def extended(segments: Segments, through: str, at: int) -> Segments:
    """Segments after further documents were read."""
    if segments and segments[-1].at == at:
        segments = segments[:-1]
    return (*segments, Segment(through, at))


def segments_after(done: Document, read: Segments, upto: str = END) -> Segments:
    """The segments of a slot whose worker has read on, up to a place.

    What the slot has read before is as it was read then; the worker may have read it again, for other slots.
    """
    own = segments_of(done)
    if not is_reading(done):
        return own
    before = done[READ]
    further = [segment for segment in read if segment.through > before]
    for segment in further:
        if segment.through >= upto:
            return extended(own, upto, segment.at)
        own = extended(own, segment.through, segment.at)
    return own


def moved(done: Document, token: Document, read: Segments) -> Document:
    """The position of a slot after its worker has handled everything up to a token."""
    if _SEGMENTS not in done:
        return token
    segments = segments_after(done, read, token.get(READ, END))
    place = {READ: token[READ]} if READ in token else {}
    if not place and all(segment.at < cluster_time_of(text_of(token)) for segment in segments):
        return token
    kept = [[segment.through, Int64(segment.at)] for segment in segments]
    return {**stream_token(token), **place, _SEGMENTS: kept}


class ReadChanges:
    """Knows which changes the documents have that were read."""

    def __init__(self, collections: Sequence[ReadCollection]) -> None:
        self._numbers = {each.namespace: number for number, each in enumerate(collections)}

    def has(self, event: Document, done: Document, read: Segments) -> bool:
        """Whether a document that the slot has read shows a change already."""
        if _SEGMENTS not in done or event.get("operationType") == "read":
            return False
        names, key, time = event.get("ns"), event.get("documentKey"), event.get("clusterTime")
        if not isinstance(names, Mapping) or not isinstance(key, Mapping) or not isinstance(time, Timestamp):
            return False
        number = self._numbers.get(f"{names.get('db')}.{names.get('coll')}")
        if number is None:
            return False
        segments = segments_after(done, read)
        place = place_of(number, encode({"_id": key["_id"]}))
        found = bisect_left([segment.through for segment in segments], place)
        return found < len(segments) and from_timestamp(time) <= segments[found].at
