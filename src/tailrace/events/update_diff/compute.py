"""The structural diff of two documents, as the writer of a pipeline update logs it.

Two cursors walk pre- and post-image. A field with the same name on both sides is left out if its bytes are
equal, descended into if both sides are documents or both are arrays, and else logged under ``u``. Where the
names differ only the pre-image's cursor moves on and the field it leaves becomes a candidate for deletion.
What remains of the post-image then goes to ``i``; candidates not found there go to ``d``. A field that moved
is thus in ``i`` alone. Arrays are compared index by index.

A child whose diff is not smaller than the child itself is logged whole. If that holds for the whole
document, with some allowance for what surrounds a diff in an oplog entry, there is no diff and the update
is logged as a replacement.
"""

from typing import Final

from tailrace.bson.raw import ARRAY, DOCUMENT, INT32_LE, Element, document, element, elements

_ENTRY_OVERHEAD: Final = 15
"""What ``{$v: 2, diff: ...}`` costs more than a replacement in an oplog entry, as the writer counts it."""


def compute_diff(pre: bytes, post: bytes) -> bytes | None:
    """The diff that turns ``pre`` into ``post``; None if a replacement should be logged instead.

    Equal documents have no diff either: an update that changes nothing is not logged at all.

    >>> from tailrace.bson.documents import decode, encode
    >>> before = {"_id": 1, "a": 1, "b": [1, 2], "c": "some text that makes a diff worth its while"}
    >>> decode(compute_diff(encode(before), encode(before | {"a": 2, "new": True})))
    {'u': {'a': 2}, 'i': {'new': True}}
    """
    if pre == post:
        return None
    diff = _document_diff(pre, 0, post, 0)
    return diff if diff is not None and len(diff) + _ENTRY_OVERHEAD < len(post) else None


def _document_diff(pre: bytes, pre_start: int, post: bytes, post_start: int) -> bytes | None:
    """The diff of two documents; None if one has a field twice, which a diff cannot speak of."""
    before, after = list(elements(pre, pre_start)), list(elements(post, post_start))
    if _has_duplicates(before) or _has_duplicates(after):
        return None
    updates: list[bytes] = []
    sub_diffs: list[bytes] = []
    skipped: set[bytes] = set()
    i = j = 0
    while i < len(before) and j < len(after):
        old, new = before[i], after[j]
        i += 1
        if old[1] != new[1]:
            skipped.add(old[1])
            continue
        j += 1
        if not _is_same_value(pre, old, post, new):
            sub_diff = _child_diff(pre, old, post, new)
            if sub_diff is None:
                updates.append(_element(post, new))
            else:
                sub_diffs.append(element(DOCUMENT, b"s" + new[1], sub_diff))
    moved_or_new = after[j:]
    skipped.difference_update(new[1] for new in moved_or_new)
    deletes = [old[1] for old in before[i:]] + sorted(skipped)
    return document(
        _section(b"d", [b"\x08%b\0\0" % name for name in deletes]),
        _section(b"u", updates),
        _section(b"i", [_element(post, new) for new in moved_or_new]),
        *sub_diffs,
    )


def _array_diff(pre: bytes, pre_start: int, post: bytes, post_start: int) -> bytes | None:
    """The diff of two arrays; None if an element is not named by its position."""
    before, after = list(elements(pre, pre_start)), list(elements(post, post_start))
    if not (_is_numbered(before) and _is_numbered(after)):
        return None
    parts = [b"\x08a\0\1"]
    if len(after) < len(before):
        parts.append(b"\x10l\0" + INT32_LE.pack(len(after)))
    for position, new in enumerate(after):
        old = before[position] if position < len(before) else None
        if old is not None and _is_same_value(pre, old, post, new):
            continue
        sub_diff = None if old is None else _child_diff(pre, old, post, new)
        if sub_diff is None:
            parts.append(element(new[0], b"u%d" % position, post[new[2] : new[3]]))
        else:
            parts.append(element(DOCUMENT, b"s%d" % position, sub_diff))
    return document(*parts)


def _child_diff(pre: bytes, old: Element, post: bytes, new: Element) -> bytes | None:
    """The sub-diff of two differing values; None if the new value is better logged whole."""
    kind, _, start, end = new
    diff: bytes | None = None
    if kind == old[0] == DOCUMENT:
        diff = _document_diff(pre, old[2], post, start)
    elif kind == old[0] == ARRAY:
        diff = _array_diff(pre, old[2], post, start)
    return diff if diff is not None and len(diff) < end - start else None


def _is_same_value(pre: bytes, old: Element, post: bytes, new: Element) -> bool:
    return old[0] == new[0] and pre[old[2] : old[3]] == post[new[2] : new[3]]


def _has_duplicates(fields: list[Element]) -> bool:
    return len({name for _, name, _, _ in fields}) < len(fields)


def _is_numbered(items: list[Element]) -> bool:
    return all(name == b"%d" % position for position, (_, name, _, _) in enumerate(items))


def _element(raw: bytes, found: Element) -> bytes:
    kind, name, start, end = found
    return element(kind, name, raw[start:end])


def _section(letter: bytes, entries: list[bytes]) -> bytes:
    return element(DOCUMENT, letter, document(*entries)) if entries else b""
