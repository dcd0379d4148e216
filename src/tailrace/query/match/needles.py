r"""Bytes that stand in every document that matches a filter: one without them need not be decoded.

A string that a field has to be equal to is there with its length before and a zero behind it, whatever
document or array it is in; so is the name of a field that has to exist. That says nothing about where they
are, so a document that has all of them may still not match.

>>> needles_of({"ns": "shop", "$and": [{"o.time": {"$exists": True}}], "$or": [{"a": "x"}, {"b": 1}]})
(b'\x05\x00\x00\x00shop\x00', b'time\x00')
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_LENGTH_SIZE: Final = 4


def needles_of(filter: Mapping[str, Any]) -> tuple[bytes, ...]:  # noqa: A002 - what MongoDB calls it
    """The bytes for a filter whose strings are compared as they are, longest first; often there are none."""
    return tuple(sorted(set(_collected(filter)), key=lambda needle: (-len(needle), needle)))


def _collected(filter: Mapping[str, Any]) -> Iterator[bytes]:  # noqa: A002
    for name, value in filter.items():
        if name == "$and" and isinstance(value, list):
            for part in value:
                yield from _collected(part)
        elif not name.startswith("$"):
            conditions = value if isinstance(value, Mapping) else {"$eq": value}
            wanted = conditions.get("$eq")
            if type(wanted) is str:  # JavaScript is a `str`, too, but another type
                text = wanted.encode(errors="surrogatepass")
                yield (len(text) + 1).to_bytes(_LENGTH_SIZE, "little") + text + b"\0"
            last = name.rpartition(".")[2]
            # The names of an array's elements are not looked at when it is read.
            if conditions.get("$exists") is True and not last.isdecimal():
                yield last.encode(errors="surrogatepass") + b"\0"
