"""Check and decode a large document of a message in pieces (`bson/in_pieces.py`)."""

from typing import Any, Final

import bson

from tailrace.bson import raw
from tailrace.bson.documents import decode, encode
from tailrace.bson.in_pieces import Steps, read_in_pieces
from tailrace.bson.repeated import RepeatedFields, repeated_field, with_repeated_fields
from tailrace.mongod.wire.payload_document import (
    MAX_DEPTH,
    OPTIONS,
    check_depth,
    check_size,
    scope_start,
    too_deep,
    walk,
)

_REFERENCE: Final = b"$ref\0"


def large_document(document: bytes, *, keep: bool = True) -> Steps[dict[str, Any]]:
    """Raise like `check_document` if these bytes are not a valid document; returns it decoded.

    Unlike there, what is returned is exact: no type and no repeated field is lost. Without ``keep`` it is
    empty.
    """
    check_size(document)
    return (yield from read_in_pieces(document, _Checked(keep)))


class _Checked:
    """Checks the pieces of a document, and decodes them without loss."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep

    def enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise too_deep()

    def fields(self, piece: bytes, depth: int) -> dict[str, Any]:
        exact = self._checked(piece, raw.DOCUMENT, depth)
        if not self._keep:
            return {}
        return with_repeated_fields(piece, decode(piece)) if exact is None else exact

    def items(self, piece: bytes, depth: int) -> list[Any]:
        exact = self._checked(piece, raw.ARRAY, depth)
        if not self._keep:
            return []
        if exact is not None:
            return list(exact.values())
        held = raw.document(raw.element(raw.ARRAY, b"", piece))
        found: list[Any] = with_repeated_fields(held, decode(held))[""]
        return found

    def _checked(self, piece: bytes, kind: int, depth: int) -> dict[str, Any] | None:
        """Check a piece; returns what PyMongo decodes, if nothing is lost in it."""
        try:
            decoded = bson.decode(piece, OPTIONS)
        except Exception:  # as in `check_document`
            walk(piece, kind, depth)
            return None
        check_depth(piece, decoded, depth)
        is_exact = self._keep and _REFERENCE not in piece and encode(decoded) == piece
        return decoded if is_exact else None

    def add(self, fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        repeated = next((name for name in more if name in fields), repeated_field(more))
        fields.update(more)
        if repeated is None:
            return fields
        marked = fields if isinstance(fields, RepeatedFields) else RepeatedFields(fields)
        marked.field = repeated
        return marked

    def scope_start(self, document: bytes, start: int, end: int) -> int:
        return scope_start(document, start, end)
