"""The reader of the ``$v: 2`` diff: one level at a time, validated, as positions in the raw bytes.

::

    docDiff   := { [d: {field: false, ...}]            fields removed
                   [u: {field: value, ...}]            new values of fields that existed
                   [i: {field: value, ...}]            fields that did not exist; they go to the end
                   [b: {field: {o: int, d: BinData}}]  patches of binary values
                   ("s" + field): docDiff | arrayDiff  any number, after all others }
    arrayDiff := { a: true,                            always first; it distinguishes the two
                   [l: int32]                          new length, always second
                   ("u" + index): value
                   ("s" + index): docDiff | arrayDiff }

The four sections keep that order and appear at most once; only the first character of a section's name is
checked. Values inside a section are not checked here: the describer and the applier copy them.

A diff that breaks the grammar raises `CommandError` with the code of the rule, as the server's reader does.
"""

import struct
from typing import Final, NamedTuple, TypeAlias

from tailrace.bson.raw import BOOL, DOCUMENT, INT32, INT32_LE, elements
from tailrace.errors import BsonError, CommandError

_ORDER: Final = {ord("d"): 0, ord("u"): 1, ord("i"): 2, ord("b"): 3, ord("s"): 4}
_SUB_DIFF: Final = 4
_LETTER_S: Final = ord("s")
_LETTER_U: Final = ord("u")
_MAX_INDEX: Final = 0x7FFFFFFF

_read_int32 = INT32_LE.unpack_from

SubDiff: TypeAlias = tuple[bytes, int]
"""(field name, where its diff starts)"""
DocumentDiff: TypeAlias = tuple[int, int, int, int, list[SubDiff]]
"""Where the documents of the sections ``d, u, i, b`` start, 0 for an absent one; then the sub-diffs."""


class ArrayEntry(NamedTuple):
    """One changed element: a new value, or the place of a sub-diff."""

    position: int
    is_sub_diff: bool
    kind: int
    start: int
    end: int


class ArrayDiff(NamedTuple):
    """One level of an array diff."""

    new_length: int | None
    entries: list[ArrayEntry]


def is_array_diff(raw: bytes, start: int) -> bool:
    """Whether the sub-diff at ``start`` is one of an array: its first field is called ``a``."""
    if _read_int32(raw, start)[0] == 5:
        raise CommandError(4770500, "an update diff, or a diff within it, is empty")
    return raw[start + 5 : start + 7] == b"a\0"


def read_document_diff(raw: bytes, start: int = 0) -> DocumentDiff:
    """The sections of the document diff that begins at byte ``start``.

    >>> from tailrace.bson.documents import encode
    >>> read_document_diff(encode({"d": {"a": False}, "sb": {"u": {"c": 1}}}))
    (7, 0, 0, 0, [(b'b', 20)])
    """
    # This is `bsonio.raw.elements` for documents only, spelled out: every update event passes here.
    sections = [0, 0, 0, 0]
    sub_diffs: list[SubDiff] = []
    last = -1
    try:
        end = start + _read_int32(raw, start)[0] - 1
        if end < start + 4 or raw[end]:
            raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
        position = start + 4
        while position < end:
            name_end = raw.index(0, position + 1, end)
            value = name_end + 1
            letter = raw[position + 1]
            section = _ORDER.get(letter, -1)
            if section <= last and (last != _SUB_DIFF or letter != _LETTER_S):
                raise _misplaced(raw[position + 1 : name_end], section, last)
            if raw[position] != DOCUMENT:
                code = 470510 if last == _SUB_DIFF else 4770507
                raise CommandError(code, f"section {_shown(raw[position + 1 : name_end])} is not an object")
            size = _read_int32(raw, value)[0]
            stop = value + size
            if size < 5 or stop > end or raw[stop - 1]:
                raise BsonError(f"the document at byte {value} has a wrong length or no final NUL")
            last = section
            if section == _SUB_DIFF:
                sub_diffs.append((raw[position + 2 : name_end], value))
            else:
                sections[section] = value
            position = stop
    except (struct.error, IndexError, ValueError):
        raise BsonError(f"the document at byte {start} breaks off") from None
    if last < 0:
        raise CommandError(4770500, "an update diff, or a diff within it, is empty")
    deletes, updates, inserts, binaries = sections
    return deletes, updates, inserts, binaries, sub_diffs


def _misplaced(name: bytes, section: int, last: int) -> CommandError:
    if not name:
        code = 4770513 if last == _SUB_DIFF else 4770505
        return CommandError(code, "an update diff has a section without a name")
    if last == _SUB_DIFF:
        return CommandError(4770514, f"an update diff has section {_shown(name)} after a sub-diff")
    problem = "repeated or out of order" if section >= 0 else "unknown"
    return CommandError(4770503, f"section {_shown(name)} of an update diff is {problem}")


def read_array_diff(raw: bytes, start: int) -> ArrayDiff:
    """The new length and the changed elements of the array diff that begins at byte ``start``."""
    walk = elements(raw, start)
    header = next(walk, None)
    if header is None or header[1] != b"a":
        raise CommandError(4770504, "an array diff does not begin with its header, field 'a'")
    if header[0] != BOOL:
        raise CommandError(4770519, "the header of an array diff is not a bool")
    if raw[header[2]] != 1:
        raise CommandError(4770520, "the header of an array diff is not true")
    new_length: int | None = None
    entries: list[ArrayEntry] = []
    for kind, name, value_start, value_end in walk:
        if len(name) < 2:
            if name == b"l" and new_length is None and not entries:
                new_length = _read_new_length(raw, kind, value_start)
                continue
            raise CommandError(4770521, f"entry {_shown(name)} of an array diff names no element")
        index = _read_index(name)
        is_sub_diff = name[0] == _LETTER_S
        if is_sub_diff:
            if kind != DOCUMENT:
                raise CommandError(4770501, f"sub-diff {_shown(name)} of an array diff is not an object")
        elif name[0] != _LETTER_U:
            raise CommandError(4770502, f"entry {_shown(name)} of an array diff is neither 'u' nor 's'")
        entries.append(ArrayEntry(index, is_sub_diff, kind, value_start, value_end))
    return ArrayDiff(new_length, entries)


def _read_new_length(raw: bytes, kind: int, start: int) -> int:
    length: int = _read_int32(raw, start)[0] if kind == INT32 else -1
    if length < 0:
        raise CommandError(4770507, "the new length in an array diff is not an int32 of at least 0")
    return length


def _read_index(name: bytes) -> int:
    digits = name[1:]
    if not digits.isdigit() or len(digits) > 20 or int(digits) > _MAX_INDEX:
        raise CommandError(4770512, f"entry {_shown(name)} of an array diff has no valid index")
    return int(digits)


def _shown(name: bytes) -> str:
    return repr(name.decode(errors="replace"))
