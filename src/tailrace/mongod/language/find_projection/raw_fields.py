"""Projections of top-level fields on a document's bytes."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tailrace.bson import raw as rawbson

RawProjection: TypeAlias = Callable[[bytes], bytes]


def keep_fields(names: Iterable[str]) -> RawProjection:
    """A function that keeps only some fields of a document, in the document's order.

    >>> from tailrace.bson.documents import decode, encode
    >>> decode(keep_fields(["c", "a"])(encode({"a": 1, "b": 2, "c": 3})))
    {'a': 1, 'c': 3}
    """
    wanted = frozenset(name.encode() for name in names)

    def project(raw: bytes) -> bytes:
        kept = []
        remaining = len(wanted)
        position = 4
        for _kind, name, _start, end in rawbson.elements(raw):
            if name in wanted:
                kept.append(raw[position:end])
                remaining -= 1
                if not remaining:
                    break
            position = end
        return rawbson.document(*kept)

    return project


def drop_fields(names: Iterable[str]) -> RawProjection:
    """A function that removes some fields of a document."""
    unwanted = frozenset(name.encode() for name in names)
    return lambda raw: rawbson.without(raw, unwanted)
