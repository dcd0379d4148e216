"""Build replies with batches of documents from the documents' bytes."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.mongod.server.reads.cursors import CursorBatch

DEFAULT_FIRST_BATCH: Final = 101
"""Default size of a first batch."""
MAX_BATCH_BYTES: Final = rawbson.MAX_USER_SIZE
"""A batch ends before the document that would make it larger; its first document always fits."""
ELEMENT_OVERHEAD: Final = 10
"""Bytes of a batch for each document besides its own, at most: type, index, end of the index."""

_KEPT_PREFIXES: Final = 100_000
"""Most batches have fewer documents; the prefixes of longer ones are not cached."""
_prefixes: list[bytes] = []
_pack_size: Final = rawbson.INT32_LE.pack
_pack_id: Final = rawbson.INT64_LE.pack


def cursor_reply(name: str, batch: CursorBatch, cursor_id: int, ns: str, **extra: Any) -> bytes:
    """`{cursor: {firstBatch | nextBatch, …, id, ns}}`; ``extra`` are fields after `ns`."""
    documents = batch.documents
    tail = []
    if batch.post_batch_resume_token is not None:
        tail.append(rawbson.element(rawbson.DOCUMENT, b"postBatchResumeToken", batch.post_batch_resume_token))
    if batch.invalidated:
        tail.append(rawbson.element(rawbson.BOOL, b"invalidated", b"\x01"))
    tail += (b"\x12id\0", _pack_id(cursor_id), _ns_element(ns))
    if extra:
        tail.append(rawbson.body(encode(extra)))
    # Sizes first, then one join: a batch may have 16 MB, and every copy of it is noticeable.
    count = len(documents)
    prefixes = _index_prefixes(count)
    array_size = 5 + sum(map(len, documents)) + _prefixes_size(count)
    cursor_size = 5 + 2 + len(name) + array_size + sum(map(len, tail))
    parts = [b""] * (2 * count)
    parts[::2] = prefixes
    parts[1::2] = documents
    head = b"%b\x03cursor\0%b\x04%b\0%b" % (
        _pack_size(5 + 8 + cursor_size),
        _pack_size(cursor_size),
        name.encode(),
        _pack_size(array_size),
    )
    parts.insert(0, head)
    parts += (b"\0", *tail, b"\0\0")
    return b"".join(parts)


def id_first_reply(documents: Sequence[bytes], cursor_id: int, ns: str) -> bytes:
    """`{cursor: {id, ns, firstBatch}}`: the order of lists, and of collections that do not exist."""
    items = [
        rawbson.element(rawbson.DOCUMENT, str(number).encode(), document)
        for number, document in enumerate(documents)
    ]
    batch = rawbson.element(rawbson.ARRAY, b"firstBatch", rawbson.document(*items))
    cursor = rawbson.document(b"\x12id\0", _pack_id(cursor_id), _ns_element(ns), batch)
    return rawbson.document(rawbson.element(rawbson.DOCUMENT, b"cursor", cursor))


@lru_cache(maxsize=1024)
def _ns_element(ns: str) -> bytes:
    return rawbson.string(b"ns", ns.encode())


def _index_prefixes(count: int) -> list[bytes]:
    """Types and names of the first elements of an array of documents."""
    kept = min(count, _KEPT_PREFIXES)
    if kept > len(_prefixes):
        _prefixes.extend(_new_prefixes(len(_prefixes), kept))
    return _prefixes[:count] if kept == count else _prefixes + _new_prefixes(kept, count)


def _new_prefixes(start: int, end: int) -> list[bytes]:
    return [b"\x03%d\0" % index for index in range(start, end)]


def _prefixes_size(count: int) -> int:
    """The size of the first ``count`` prefixes.

    >>> [_prefixes_size(count) == sum(map(len, _index_prefixes(count))) for count in (0, 11, 1234, 100_001)]
    [True, True, True, True]
    """
    size, digits, first = 0, 1, 0
    while first < count:
        end = min(count, 10**digits)
        size += (end - first) * (digits + 2)
        first, digits = end, digits + 1
    return size


def fitting(documents: Iterable[bytes], used: int = 0) -> int:
    """How many of the documents fit into a batch that has ``used`` bytes; at least one into an empty batch.

    >>> fitting([b"x" * 9_000_000, b"y" * 9_000_000]), fitting([b"x" * 20_000_000])
    (1, 1)
    """
    count = 0
    for document in documents:
        used += len(document) + ELEMENT_OVERHEAD
        if used > MAX_BATCH_BYTES and used > len(document) + ELEMENT_OVERHEAD:
            break
        count += 1
    return count
