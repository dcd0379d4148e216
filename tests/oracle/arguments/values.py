"""Values of every BSON type, and places in commands where they are tried."""

import math
from collections.abc import Iterator
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode, encode_value
from tailrace.bson.values import DBPointer, Symbol, Undefined

Document = dict[str, Any]
Path = tuple[str | int, ...]
_ID: Final = ObjectId("0123456789abcdef01234567")
VALUES: Final[tuple[Any, ...]] = (
    0, 1, -1, 2, 2**31 - 1, -(2**31), Int64(0), Int64(1), Int64(-1), Int64(5), Int64(2**31), Int64(2**63 - 1),
    Int64(-(2**63)), 0.0, 1.0, -1.0, 1.5, -1.5, 1e300, -1e300, math.nan, math.inf, -math.inf,
    Decimal128("0"), Decimal128("1"), Decimal128("1.5"), Decimal128("-1"), Decimal128("NaN"),
    Decimal128("Infinity"), "", "x", "1", True, False, None, {}, {"a": 1}, {"$a": 1}, [], [1], ["x"], [{}],
    [{"a": 1}], [None], Timestamp(0, 0), Timestamp(1, 1), DatetimeMS(0), _ID, Binary(b""), Binary(b"x", 0),
    Binary(bytes(range(16)), 4), Binary(b"x" * 16, 3), Regex("a"), Code("x"), Code("x", {}), MinKey(),
    MaxKey(), Undefined(), Symbol("x"), DBPointer("a.b", _ID),
)  # fmt: skip


def paths(document: Document) -> Iterator[Path]:
    """The places of all values in a document, outer ones first."""
    for name, value in document.items():
        yield (name,)
        yield from ((name, *rest) for rest in _inner(value))


def _inner(value: Any) -> Iterator[Path]:
    if isinstance(value, dict):
        yield from paths(value)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield (number,)
            yield from ((number, *rest) for rest in _inner(item))


def value_at(container: Any, path: Path) -> Any:
    for step in path:
        container = container[step]
    return container


def changed(container: Any, path: Path, value: Any) -> Any:
    """A copy with another value at a place; a field that is not there becomes the last."""
    step, rest = path[0], path[1:]
    if isinstance(container, list):
        items = list(container)
        items[int(step)] = changed(items[int(step)], rest, value) if rest else value
        return items
    inner = changed(container[step], rest, value) if rest else value
    return {**container, step: inner}


def removed(container: Any, path: Path) -> Any:
    """A copy without the value at a place."""
    step, rest = path[0], path[1:]
    if rest:
        return changed(container, (step,), removed(container[step], rest))
    if isinstance(container, list):
        return [item for number, item in enumerate(container) if number != step]
    return {name: value for name, value in container.items() if name != step}


def twice(container: Any, path: Path) -> bytes:
    """The document with the field at a place given twice; the copy is the last field."""
    step, rest = path[0], path[1:]
    items = enumerate(container) if isinstance(container, list) else container.items()
    if not rest:
        kind, value = encode_value(container[step])
        return rawbson.document(
            rawbson.body(encode(container)), rawbson.element(kind, str(step).encode(), value)
        )
    elements = []
    for name, item in items:
        if name == step:
            kind = rawbson.ARRAY if isinstance(item, list) else rawbson.DOCUMENT
            value = twice(item, rest)
        else:
            kind, value = encode_value(item)
        elements.append(rawbson.element(kind, str(name).encode(), value))
    return rawbson.document(*elements)
