"""A ``$v: 2`` diff as a tree to apply: each level has the changes of its fields or elements.

Everything that can be wrong with a diff, independent of the document, is found here: the reader's errors of
`grammar`, a field or element that is changed twice (4728000), an element at or beyond the new length
(12495901), a malformed binary patch (12262900, 12262901).
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tailrace.bson.raw import BINARY, DOCUMENT, INT32, INT64, elements
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.update_diff.grammar import is_array_diff, read_array_diff, read_document_diff

BINARY_HEADER: Final = 5
"""Bytes of length and subtype in front of a binary value's payload."""
_INTEGERS: Final = frozenset({INT32, INT64})


@dataclass(frozen=True, slots=True)
class BinaryPatch:
    """Keep the first ``offset`` bytes of a binary value, then go on with ``data``."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """What happens to a document's fields; updates and inserts are finished elements in section order."""

    deletes: set[bytes] = field(default_factory=set)
    updates: dict[bytes, bytes] = field(default_factory=dict)
    inserts: dict[bytes, bytes] = field(default_factory=dict)
    binaries: dict[bytes, BinaryPatch] = field(default_factory=dict)
    children: dict[bytes, "Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """What happens to an array's elements: by index a new value (type byte and bytes) or a child."""

    new_length: int | None
    updates: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    children: dict[int, "Node"] = field(default_factory=dict)


Node: TypeAlias = DocumentNode | ArrayNode


def parse(raw_diff: bytes) -> DocumentNode:
    """The tree of a diff, all levels validated.

    >>> from tailrace.bson.documents import encode
    >>> parse(encode({"d": {"x": False}, "sa": {"a": True, "l": 1, "u0": None}})).children
    {b'a': ArrayNode(new_length=1, updates={0: (10, b'')}, children={})}
    """
    try:
        return _parse_document(raw_diff, 0)
    except RecursionError:
        raise CommandError(ErrorCode.Overflow, "an update diff nests too deeply") from None


def _parse_document(raw: bytes, start: int) -> DocumentNode:
    deletes, updates, inserts, binaries, sub_diffs = read_document_diff(raw, start)
    node = DocumentNode()
    names: list[bytes] = []
    if deletes:
        names += (name for _, name, _, _ in elements(raw, deletes))
        node.deletes.update(names)
    for section, target in ((updates, node.updates), (inserts, node.inserts)):
        if section:
            for _, name, value_start, value_end in elements(raw, section):
                names.append(name)
                target[name] = raw[value_start - len(name) - 2 : value_end]
    if binaries:
        for kind, name, value_start, _ in elements(raw, binaries):
            names.append(name)
            node.binaries[name] = _parse_patch(raw, kind, value_start)
    for name, sub_start in sub_diffs:
        names.append(name)
        node.children[name] = _parse_sub_diff(raw, sub_start)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1).decode(errors="replace")
        raise CommandError(4728000, f"an update diff changes field {twice!r} twice")
    return node


def _parse_sub_diff(raw: bytes, start: int) -> Node:
    return _parse_array(raw, start) if is_array_diff(raw, start) else _parse_document(raw, start)


def _parse_array(raw: bytes, start: int) -> ArrayNode:
    new_length, entries = read_array_diff(raw, start)
    node = ArrayNode(new_length)
    for position, is_sub_diff, kind, value_start, value_end in entries:
        if new_length is not None and position >= new_length:
            message = f"an array diff changes element {position} and sets the length to {new_length}"
            raise CommandError(12495901, message)
        if position in node.updates or position in node.children:
            raise CommandError(4728000, f"an array diff changes element {position} twice")
        if is_sub_diff:
            node.children[position] = _parse_sub_diff(raw, value_start)
        else:
            node.updates[position] = (kind, raw[value_start:value_end])
    return node


def _parse_patch(raw: bytes, kind: int, start: int) -> BinaryPatch:
    offset = -1
    data: bytes | None = None
    if kind == DOCUMENT:
        for field_kind, name, value_start, value_end in elements(raw, start):
            if name == b"o" and field_kind in _INTEGERS:
                offset = int.from_bytes(raw[value_start:value_end], "little", signed=True)
            elif name == b"d" and field_kind == BINARY:
                data = raw[value_start + BINARY_HEADER : value_end]
    if offset < 0:
        raise CommandError(12262900, "a binary patch has no offset 'o' that is an integer of at least 0")
    if data is None:
        raise CommandError(12262901, "a binary patch has no binary value 'd'")
    return BinaryPatch(offset, data)
