"""Replies with batches of documents, put together from the documents' own bytes."""

from collections.abc import Iterable
from typing import Any, Final

from bson import Int64

from tailrace.bsonio import raw as rawbson
from tailrace.bsonio.documents import encode
from tailrace.server.cursors import CursorBatch

DEFAULT_FIRST_BATCH: Final = 101
"""Documents in a first batch if the client does not say."""
MAX_BATCH_BYTES: Final = rawbson.MAX_USER_SIZE
"""A batch ends before the document that would make it larger; its first document always fits."""
ELEMENT_OVERHEAD: Final = 10
"""What a document costs in a batch besides its own bytes, at most: type, index, end of the index."""

_prefixes: list[bytes] = []


def cursor_reply(name: str, batch: CursorBatch, cursor_id: int, ns: str, **extra: Any) -> bytes:
    """`{cursor: {firstBatch | nextBatch, …, id, ns}}`; ``extra`` are fields behind `ns`."""
    elements = [array_element(name.encode(), batch.documents)]
    if batch.post_batch_resume_token is not None:
        elements.append(
            rawbson.element(rawbson.DOCUMENT, b"postBatchResumeToken", batch.post_batch_resume_token)
        )
    if batch.invalidated:
        elements.append(rawbson.element(rawbson.BOOL, b"invalidated", b"\x01"))
    elements.append(rawbson.body(encode({"id": Int64(cursor_id), "ns": ns, **extra})))
    cursor = rawbson.document(*elements)
    return rawbson.document(rawbson.element(rawbson.DOCUMENT, b"cursor", cursor))


def array_element(name: bytes, documents: list[bytes]) -> bytes:
    """An array of documents as a finished element."""
    count = len(documents)
    if count > len(_prefixes):
        _prefixes.extend(b"\x03%d\0" % index for index in range(len(_prefixes), count))
    parts = [b""] * (2 * count)
    parts[::2] = _prefixes[:count]
    parts[1::2] = documents
    return rawbson.element(rawbson.ARRAY, name, rawbson.document(*parts))


def fitting(documents: Iterable[bytes], used: int = 0) -> int:
    """How many of the documents fit into a batch that has ``used`` bytes; into an empty one at least one.

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
