"""From a ``$v: 2`` diff to the ``updateDescription`` of an update event, bytes to bytes.

``{updatedFields, removedFields, truncatedArrays[, disambiguatedPaths]}`` is filled by one depth-first walk:
at each level the entries of ``u``, ``i`` and ``b``, then those of ``d``, then the sub-diffs in their order.
Paths are joined with dots; two different paths that join to one name both appear.

About every third oplog entry is an update, so this is the hottest code of the pipeline. Values are spliced
and never decoded; a section at the top level, whose names need no prefix, is copied as one block.
"""

import re
from typing import Final

from tailrace.bson.raw import EMPTY, INT32_LE, elements, prefixed, string, without
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.update_diff.disambiguate import disambiguated_paths
from tailrace.events.update_diff.grammar import is_array_diff, read_array_diff, read_document_diff

_pack_int32 = INT32_LE.pack
_read_int32 = INT32_LE.unpack_from

_UPDATED: Final = b"\x03updatedFields\0"
_REMOVED: Final = b"\x04removedFields\0"
_TRUNCATED: Final = b"\x04truncatedArrays\0"
_DISAMBIGUATED: Final = b"\x03disambiguatedPaths\0"
_NOTHING_ELSE: Final = _REMOVED + EMPTY + _TRUNCATED + EMPTY + b"\0"
_NOTHING_ELSE_EXPANDED: Final = _NOTHING_ELSE[:-1] + _DISAMBIGUATED + EMPTY + b"\0"
# How much longer the description is than a diff of one section, whose frame and name take 8 bytes.
_GROWTH: Final = 4 + len(_UPDATED) + len(_NOTHING_ELSE) - 8
_GROWTH_EXPANDED: Final = 4 + len(_UPDATED) + len(_NOTHING_ELSE_EXPANDED) - 8
_VALUE_SECTIONS: Final = frozenset({b"\x03u\0", b"\x03i\0"})
_SMALLEST_SECTION_DIFF: Final = 13
_DOT: Final = ord(".")
# An ambiguous name has a dot in it or is a number: digits between a type, perhaps the letter of a changed
# element or a sub-diff, and a NUL. Neither proves anything, it may be in a value.
_MAY_BE_AMBIGUOUS: Final = re.compile(rb"\.|[\x01-\x13\x7f\xff][su]?[0-9]+\0").search


def describe(raw_diff: bytes, *, expanded: bool, truncations: bool = True) -> bytes:
    """The ``updateDescription`` of a diff; with ``disambiguatedPaths`` if ``expanded``.

    Without ``truncations`` there is no ``truncatedArrays``, as before MongoDB 5.0.

    >>> from tailrace.bson.documents import decode, encode
    >>> decode(describe(encode({"d": {"x": False}, "sa": {"u": {"b": 1}}}), expanded=False))
    {'updatedFields': {'a.b': 1}, 'removedFields': ['x'], 'truncatedArrays': []}
    """
    size = len(raw_diff)
    # The usual diff is one section of new values: its document is `updatedFields`.
    if (
        truncations
        and raw_diff[4:7] in _VALUE_SECTIONS
        and size >= _SMALLEST_SECTION_DIFF
        and _read_int32(raw_diff, 7)[0] == size - 8
        and _read_int32(raw_diff)[0] == size
        and raw_diff[-2:] == b"\0\0"
    ):
        if not expanded:
            return _pack_int32(size + _GROWTH) + _UPDATED + raw_diff[7:-1] + _NOTHING_ELSE
        if _DOT not in raw_diff:  # then no name has one; a dot proves nothing, it may be in a value
            return _pack_int32(size + _GROWTH_EXPANDED) + _UPDATED + raw_diff[7:-1] + _NOTHING_ELSE_EXPANDED
    try:
        return _describe_any(raw_diff, expanded=expanded, truncations=truncations)
    except RecursionError:
        raise CommandError(ErrorCode.Overflow, "an update diff nests too deeply") from None


NO_PATHS: Final = _DISAMBIGUATED + EMPTY + b"\0"
"""How most descriptions made with ``expanded`` end"""


def without_disambiguated_paths(description: bytes) -> bytes:
    """A description made with ``expanded``, as it is without."""
    if description.endswith(NO_PATHS):
        return _pack_int32(len(description) - len(NO_PATHS) + 1) + description[4 : -len(NO_PATHS)] + b"\0"
    return without(description, (_DISAMBIGUATED[1:-1],))


def _describe_any(raw_diff: bytes, *, expanded: bool, truncations: bool) -> bytes:
    description = _Description()
    _describe_document(raw_diff, 0, b"", description)
    parts = [_UPDATED, _framed(description.updated), _REMOVED, _framed(description.removed)]
    if truncations:
        parts += (_TRUNCATED, _framed(description.truncated))
    if expanded:
        parts += (_DISAMBIGUATED, disambiguated_paths(raw_diff) if _MAY_BE_AMBIGUOUS(raw_diff) else EMPTY)
    return _framed(parts)


class _Description:
    """What the walk has found so far: finished elements."""

    __slots__ = ("removed", "truncated", "updated")

    def __init__(self) -> None:
        self.updated: list[bytes] = []
        self.removed: list[bytes] = []
        self.truncated: list[bytes] = []


def _framed(parts: list[bytes]) -> bytes:
    if not parts:
        return EMPTY
    body = b"".join(parts)
    return b"%b%b\0" % (_pack_int32(len(body) + 5), body)


def _describe_document(raw: bytes, start: int, prefix: bytes, out: _Description) -> None:
    """One level of a document diff; ``prefix`` is empty at the top level and ends with a dot below it."""
    deletes, updates, inserts, binaries, sub_diffs = read_document_diff(raw, start)
    for section in (updates, inserts, binaries):
        if section and prefix:
            out.updated += prefixed(raw, section, prefix)
        elif section:
            out.updated.append(raw[section + 4 : section + _read_int32(raw, section)[0] - 1])
    if deletes:
        removed = out.removed
        for _, name, _, _ in elements(raw, deletes):
            removed.append(string(b"%d" % len(removed), prefix + name))
    for name, sub_start in sub_diffs:
        if is_array_diff(raw, sub_start):
            _describe_array(raw, sub_start, prefix + name, out)
        else:
            _describe_document(raw, sub_start, b"%b%b." % (prefix, name), out)


def _describe_array(raw: bytes, start: int, path: bytes, out: _Description) -> None:
    new_length, entries = read_array_diff(raw, start)
    if new_length is not None:
        entry = _framed([string(b"field", path), b"\x10newSize\0", _pack_int32(new_length)])
        out.truncated.append(b"\x03%d\0%b" % (len(out.truncated), entry))
    for index, is_sub_diff, kind, value_start, value_end in entries:
        if not is_sub_diff:
            out.updated.append(b"%c%b.%d\0%b" % (kind, path, index, raw[value_start:value_end]))
        elif is_array_diff(raw, value_start):
            _describe_array(raw, value_start, b"%b.%d" % (path, index), out)
        else:
            _describe_document(raw, value_start, b"%b.%d." % (path, index), out)
