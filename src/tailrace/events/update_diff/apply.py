"""From a pre-image and a ``$v: 2`` diff to the post-image, bytes to bytes.

What the diff does not mention is copied in runs. A field in ``i`` that exists already is dropped where it
was and comes again at the end: that is how a diff moves a field, and the result is the document
as it is stored. The image that a stream computes is another one if a diff, or one inside of it, only
inserts: then a server does not look for the fields, and an image has those that were moved twice.

A diff can be applied again to a document that has it already: a sub-diff of a missing field
does nothing, and one of a value of another type makes it null (a later change in the log replaces it).
"""

from dataclasses import dataclass
from typing import Final

from tailrace.bson.raw import (
    ARRAY,
    BINARY,
    DOCUMENT,
    INT32_LE,
    MAX_INTERNAL_SIZE,
    NULL,
    Element,
    document,
    element,
    elements,
)
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.update_diff.parser import (
    BINARY_HEADER,
    ArrayNode,
    BinaryPatch,
    DocumentNode,
    Node,
    parse,
)

_SMALLEST_ELEMENT: Final = 3
_NULL_VALUE: Final = (NULL, b"")


def apply_diff(pre_image: bytes, raw_diff: bytes) -> bytes:
    """The document after the update that logged ``raw_diff``.

    >>> from tailrace.bson.documents import decode, encode
    >>> diff = encode({"d": {"x": False}, "i": {"a": 2}, "sc": {"a": True, "u2": 5}})
    >>> decode(apply_diff(encode({"a": 1, "x": 0, "c": [3]}), diff))
    {'c': [3, None, 5], 'a': 2}
    """
    return _Applier().applied(pre_image, 0, parse(raw_diff))


def image_after(pre_image: bytes, raw_diff: bytes) -> bytes:
    """The document after an update as a stream shows it.

    >>> from tailrace.bson.documents import decode, encode
    >>> decode(image_after(encode({"a": 1, "c": 3}), encode({"u": {"c": 4}, "i": {"a": 2}})))
    {'c': 4, 'a': 2}
    >>> pre_image, diff = encode({"a": 1, "c": 3}), encode({"i": {"a": 2}})
    >>> [name for _, name, _, _ in elements(image_after(pre_image, diff), 0)]
    [b'a', b'c', b'a']
    """
    return _Applier(looks_for_inserted=False).applied(pre_image, 0, parse(raw_diff))


@dataclass(frozen=True, slots=True)
class _Applier:
    looks_for_inserted: bool = True
    """Whether a diff that only inserts removes the fields from where they were."""

    def applied(self, raw: bytes, start: int, node: DocumentNode) -> bytes:
        deletes, updates, inserts = node.deletes, node.updates, node.inserts
        binaries, children = node.binaries, node.children
        only_inserts = not (deletes or updates or binaries or children)
        dropped = deletes if only_inserts and not self.looks_for_inserted else deletes | inserts.keys()
        parts: list[bytes] = []
        not_yet_updated = dict(updates)
        copied_to = position = start + 4
        for found in elements(raw, start):
            _, name, _, value_end = found
            changed: bytes | None = None
            if name in dropped:
                changed = b""
            elif name in updates:
                changed = updates[name]
                not_yet_updated.pop(name, None)
            elif name in binaries:
                changed = _patched(raw, found, binaries[name])
            elif name in children:
                changed = self._element(raw, found, children[name])
            if changed is not None:
                parts += (raw[copied_to:position], changed)
                copied_to = value_end
            position = value_end
        parts.append(raw[copied_to:position])
        return document(*parts, *not_yet_updated.values(), *inserts.values())

    def _element(self, raw: bytes, found: Element, node: Node) -> bytes:
        kind, name, start, _ = found
        if isinstance(node, DocumentNode):
            if kind == DOCUMENT:
                return element(DOCUMENT, name, self.applied(raw, start, node))
        elif kind == ARRAY:
            return element(ARRAY, name, self._array(raw, start, node))
        return element(NULL, name, b"")

    def _array(self, raw: bytes, start: int, node: ArrayNode) -> bytes:
        updates, children = node.updates, node.children
        changed_length = max((position + 1 for position in (*updates, *children)), default=0)
        if max(changed_length, node.new_length or 0) * _SMALLEST_ELEMENT > MAX_INTERNAL_SIZE:
            message = f"an array diff makes an array of {changed_length} elements, more than a document holds"
            raise CommandError(ErrorCode.BSONObjectTooLarge, message)
        parts: list[bytes] = []
        length = 0
        copied_to = position = start + 4
        for found in elements(raw, start):
            if length == node.new_length:
                break
            if length in updates or length in children:
                parts.append(raw[copied_to:position])
                copied_to = found[3]
                if length in updates:
                    parts.append(_numbered(length, updates[length]))
                else:
                    parts.append(self._element(raw, found, children[length]))
            position = found[3]
            length += 1
        parts.append(raw[copied_to:position])
        target = changed_length if node.new_length is None else node.new_length
        parts += (_numbered(index, updates.get(index, _NULL_VALUE)) for index in range(length, target))
        return document(*parts)


def _patched(raw: bytes, found: Element, patch: BinaryPatch) -> bytes | None:
    """The element with its payload patched; None, unchanged, if there is no such payload to go on from."""
    kind, name, start, end = found
    payload = start + BINARY_HEADER
    if kind != BINARY or payload + patch.offset > end:
        return None
    head = INT32_LE.pack(patch.offset + len(patch.data)) + raw[start + 4 : payload + patch.offset]
    return element(BINARY, name, head + patch.data)


def _numbered(index: int, value: tuple[int, bytes]) -> bytes:
    return element(value[0], b"%d" % index, value[1])
