r"""Needles: byte strings that every matching document contains, so that others need not be decoded.

A string or an ObjectId that a field must equal is in the document's bytes, at any depth; so is the name of a
field that must exist. A number has its field's type and name before it: an equal one may have another type,
and a decimal many forms, so there are alternatives; an array of that name may contain it. The needles may be
elsewhere in the document, so a document that contains them may still not match. What a missing field can
match, such as null, has no needles.

>>> needles_of({"ns": "shop", "$and": [{"o.time": {"$exists": True}}], "$or": [{"a": "x"}, {"b": "yz"}]})
((b'\x05\x00\x00\x00shop\x00',), (b'\x02\x00\x00\x00x\x00', b'\x03\x00\x00\x00yz\x00'), (b'time\x00',))
>>> needles_of({"a.b": True, "c": None, "d": {"$gt": 5}})
((b'\x04b\x00', b'\x08b\x00\x01'),)
"""

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, Int64, ObjectId

from tailrace.bson import raw as rawbson
from tailrace.bson.values import is_string
from tailrace.pacing import ticking
from tailrace.query.match.scope import is_operator_document

Needles: TypeAlias = tuple[bytes, ...]
"""One of these is in every matching document."""

_MOST: Final = 16
"""Looking for more alternatives costs more than decoding."""
_DOUBLE: Final = struct.Struct("<d")


def needles_of(filter: Mapping[str, Any]) -> tuple[Needles, ...]:  # noqa: A002 - what MongoDB calls it
    """The needles of a filter without a collation, longest first; often there are none."""
    return tuple(sorted(set(_all_of(filter)), key=lambda needles: (-min(map(len, needles)), needles)))


def _all_of(filter: Mapping[str, Any]) -> Iterator[Needles]:  # noqa: A002 - MongoDB's name
    for name, value in filter.items():
        if name == "$and" and isinstance(value, list):
            for part in ticking(value):
                if isinstance(part, Mapping):
                    yield from _all_of(part)
        elif name == "$or" and isinstance(value, list):
            yield from _joined([needles_of(part) if isinstance(part, Mapping) else () for part in value])
        elif not name.startswith("$"):
            conditions = value.items() if is_operator_document(value) else [("$eq", value)]
            for operator, argument in conditions:
                yield from _needles(name, operator, argument)


def _joined(branches: list[tuple[Needles, ...]]) -> Iterator[Needles]:
    """One of the branches has to hold, each with its longest needles."""
    if branches and all(branches):
        found = {needle for branch in branches for needle in branch[0]}
        if len(found) <= _MOST:
            yield tuple(sorted(found))


def _needles(path: str, operator: str, value: Any) -> Iterator[Needles]:
    name = path.rpartition(".")[2].encode(errors="surrogatepass")
    # An index is not a needle: the names of array elements are ignored when BSON is decoded.
    named = None if name.isdigit() else name
    if operator == "$eq":
        found = _equal(named, value)
        if found:
            yield tuple(sorted(found))
    elif operator == "$in" and isinstance(value, list) and len(value) <= _MOST:
        each_equal = [tuple(_equal(named, each)) for each in value]
        yield from _joined([(needles,) if needles else () for needles in each_equal])
    elif operator == "$exists" and value is True and named is not None:
        yield (named + b"\0",)


def _equal(name: bytes | None, value: Any) -> set[bytes]:
    """The alternatives for a value that a field called ``name`` must equal; empty if that is not known."""
    if is_string(value):  # JavaScript is a `str`, too, but another type
        return {rawbson.framed(value.encode(errors="surrogatepass"))}
    if isinstance(value, ObjectId):
        return {value.binary}
    found: set[bytes] = set()
    if name is None:
        return found
    if isinstance(value, bool):
        found = {rawbson.element(rawbson.BOOL, name, b"\1" if value else b"\0")}
    elif isinstance(value, DatetimeMS):
        found = {rawbson.element(rawbson.DATE, name, rawbson.INT64_LE.pack(int(value)))}
    elif type(value) in (int, Int64, float):
        found = _numbers(name, value)
    return found | {rawbson.element(rawbson.ARRAY, name, b"")} if found else found


def _numbers(name: bytes, value: float) -> set[bytes]:
    if math.isnan(value):
        return set()
    found = {rawbson.element(rawbson.DECIMAL128, name, b"")}
    if math.isinf(value) or float(value) == value:
        doubles = (0.0, -0.0) if value == 0 else (float(value),)
        found |= {rawbson.element(rawbson.DOUBLE, name, _DOUBLE.pack(double)) for double in doubles}
    if not math.isinf(value) and value == int(value):
        whole = int(value)
        if -(1 << 31) <= whole < 1 << 31:
            found.add(rawbson.element(rawbson.INT32, name, rawbson.INT32_LE.pack(whole)))
        if -(1 << 63) <= whole < 1 << 63:
            found.add(rawbson.element(rawbson.INT64, name, rawbson.INT64_LE.pack(whole)))
    return found
