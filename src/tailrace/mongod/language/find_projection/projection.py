"""A compiled projection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tailrace.bson.documents import decode, encode_with_ticks
from tailrace.mongod.language.find_projection.array_operators import Components, Slice, at_position
from tailrace.mongod.language.find_projection.raw_fields import RawProjection
from tailrace.query.match import Matcher

Document: TypeAlias = dict[str, Any]
METADATA: Final = ("recordId", "indexKey")


@dataclass(frozen=True, slots=True)
class FindProjection:
    """A compiled projection of single documents."""

    reshape: Callable[[Document], Document]
    """Keeps, drops and computes fields."""
    slices: Sequence[tuple[Components, Slice]] = ()
    positional: tuple[Components, Matcher] | None = None
    on_bytes: RawProjection | None = None
    """The whole projection, if it can be done without decoding."""
    metadata: Sequence[tuple[str, str]] = ()
    """Fields that the caller sets to metadata of the record, each one of `METADATA`."""

    def apply(self, raw: bytes, document: Document | None = None) -> bytes:
        """The projected document; pass ``document`` if it is decoded already."""
        if self.on_bytes is not None:
            return self.on_bytes(raw)
        return encode_with_ticks(self.project(decode(raw) if document is None else document))

    def project(self, document: Document) -> Document:
        """The projected document as values; the given document is not changed."""
        if self.positional is not None:
            document = at_position(document, *self.positional)
        result = self.reshape(document)
        for components, cut in self.slices:
            result = cut.applied_to(result, components)
        return result
