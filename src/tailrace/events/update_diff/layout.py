"""The parts shared by diffs that are built alike, and where their values go in the description.

The description of a diff depends on its names and on how it nests; the values are copied. So
diffs that differ in nothing but bytes of values have descriptions that differ in nothing else either.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tailrace.bson.raw import (
    ARRAY,
    BINARY,
    CODE,
    CODE_WITH_SCOPE,
    DB_POINTER,
    DOCUMENT,
    REGEX,
    STRING,
    SYMBOL,
    elements,
)
from tailrace.errors import CommandError
from tailrace.events.update_diff.description import describe
from tailrace.events.update_diff.grammar import is_array_diff, read_array_diff, read_document_diff

_BEGIN_WITH_SIZE: Final = frozenset({
    STRING, DOCUMENT, ARRAY, BINARY, DB_POINTER, CODE, SYMBOL, CODE_WITH_SCOPE,
})  # fmt: skip
_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class DiffLayout:
    """One diff, its description, and which bytes of both are values."""

    diff: bytes
    description: bytes
    values: tuple[tuple[int, int, int], ...]
    """(place in the diff, place in the description, how many bytes); a value's size is no part of it"""


def layout_of(raw_diff: bytes) -> DiffLayout | None:
    """The layout of a diff and its expanded description; None if it cannot be described or not be walked.

    >>> from tailrace.bson.documents import encode
    >>> layout_of(encode({"u": {"a": 1}, "sb": {"u": {"c": "text"}}})).values
    ((14, 26, 4), (41, 39, 5))
    """
    try:
        description = describe(raw_diff, expanded=True)
        logged = list(_document_values(raw_diff, 0))
        shown = list(elements(description, _updated_fields(description)))
    except (CommandError, RecursionError):
        return None
    if len(logged) != len(shown):
        return None
    values = []
    for (start, end), (kind, _, shown_start, shown_end) in zip(logged, shown, strict=True):
        if raw_diff[start:end] != description[shown_start:shown_end]:
            return None
        # The end of a pattern depends on its bytes.
        fixed = end - start if kind == REGEX else _SIZE if kind in _BEGIN_WITH_SIZE else 0
        if start + fixed < end:
            values.append((start + fixed, shown_start + fixed, end - start - fixed))
    return DiffLayout(raw_diff, description, tuple(values))


def _updated_fields(description: bytes) -> int:
    return next(elements(description))[2]


def _document_values(raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where the values of a document's diff begin and end, in the order in which they are described."""
    _, updates, inserts, binaries, sub_diffs = read_document_diff(raw, start)
    for section in (updates, inserts, binaries):
        if section:
            for _, _, value_start, value_end in elements(raw, section):
                yield value_start, value_end
    for _, sub_start in sub_diffs:
        yield from _values(raw, sub_start)


def _values(raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    if not is_array_diff(raw, start):
        yield from _document_values(raw, start)
        return
    for _, is_sub_diff, _, value_start, value_end in read_array_diff(raw, start).entries:
        if is_sub_diff:
            yield from _values(raw, value_start)
        else:
            yield value_start, value_end
