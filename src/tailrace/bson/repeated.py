"""Documents in commands that have a field twice, which a dict cannot show."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode_value, encode


class RepeatedFields(dict[str, Any]):
    """A document with a field that is given more than once; the last one counts."""

    field: str


def repeated_field(document: Mapping[str, Any]) -> str | None:
    """The name of a field that a document has twice."""
    return document.field if isinstance(document, RepeatedFields) else None


def with_repeated_fields(body: bytes, decoded: dict[str, Any]) -> dict[str, Any]:
    """The decoded document, with documents in it marked if they have a field twice."""
    return decoded if encode(decoded) == body else _document(body, 0)


def _document(raw: bytes, start: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    repeated = None
    for kind, encoded_name, value_start, end in rawbson.elements(raw, start):
        name = encoded_name.decode()
        if name in found:
            repeated = name
        found[name] = _value(raw, kind, value_start, end)
    if repeated is None:
        return found
    marked = RepeatedFields(found)
    marked.field = repeated
    return marked


def _value(raw: bytes, kind: int, start: int, end: int) -> Any:
    if kind == rawbson.DOCUMENT:
        return _document(raw, start)
    if kind == rawbson.ARRAY:
        return [_value(raw, *element) for element in _items(raw, start)]
    return decode_value(raw, kind, start, end)


def _items(raw: bytes, start: int) -> list[tuple[int, int, int]]:
    return [(kind, begin, end) for kind, _, begin, end in rawbson.elements(raw, start)]
