r"""Needles: byte strings that every matching document contains, so that others need not be decoded.

A string that a field must equal is in the document's bytes with its length before it and a zero after it, at
any depth; so is the name of a field that must exist. The needles may be elsewhere in the document, so a
document that contains all of them may still not match.

>>> needles_of({"ns": "shop", "$and": [{"o.time": {"$exists": True}}], "$or": [{"a": "x"}, {"b": 1}]})
(b'\x05\x00\x00\x00shop\x00', b'time\x00')
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.values import is_string
from tailrace.query.match.conditions import Condition, conditions_of

_TYPE_AND_NO_NAME: Final = 2


def needles_of(filter: Mapping[str, Any]) -> tuple[bytes, ...]:  # noqa: A002 - what MongoDB calls it
    """The needles of a filter without a collation, longest first; often there are none."""
    conditions = conditions_of(filter)
    found = {needle for path in conditions for one in conditions[path] for needle in _needles(path, one)}
    return tuple(sorted(found, key=lambda needle: (-len(needle), needle)))


def _needles(path: str, condition: Condition) -> Iterator[bytes]:
    operator, value = condition
    if operator == "$eq" and is_string(value):  # JavaScript is a `str`, too, but another type
        yield rawbson.string(b"", value.encode(errors="surrogatepass"))[_TYPE_AND_NO_NAME:]
    last = path.rpartition(".")[2]
    # An index is not a needle: the names of array elements are ignored when BSON is decoded.
    if operator == "$exists" and value is True and not last.isdecimal():
        yield last.encode(errors="surrogatepass") + b"\0"
