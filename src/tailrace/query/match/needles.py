r"""Bytes that stand in every document that matches a filter: one without them need not be decoded.

A string that a field has to be equal to is there with its length before and a zero behind it, whatever
document or array it is in; so is the name of a field that has to exist. That says nothing about where they
are, so a document that has all of them may still not match.

>>> needles_of({"ns": "shop", "$and": [{"o.time": {"$exists": True}}], "$or": [{"a": "x"}, {"b": 1}]})
(b'\x05\x00\x00\x00shop\x00', b'time\x00')
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.query.match.conditions import Condition, conditions_of

_TYPE_AND_NO_NAME: Final = 2


def needles_of(filter: Mapping[str, Any]) -> tuple[bytes, ...]:  # noqa: A002 - what MongoDB calls it
    """The bytes for a filter whose strings are compared as they are, longest first; often there are none."""
    conditions = conditions_of(filter)
    found = {needle for path in conditions for one in conditions[path] for needle in _needles(path, one)}
    return tuple(sorted(found, key=lambda needle: (-len(needle), needle)))


def _needles(path: str, condition: Condition) -> Iterator[bytes]:
    operator, value = condition
    if operator == "$eq" and type(value) is str:  # JavaScript is a `str`, too, but another type
        yield rawbson.string(b"", value.encode(errors="surrogatepass"))[_TYPE_AND_NO_NAME:]
    last = path.rpartition(".")[2]
    # The names of an array's elements are not looked at when it is read.
    if operator == "$exists" and value is True and not last.isdecimal():
        yield last.encode(errors="surrogatepass") + b"\0"
