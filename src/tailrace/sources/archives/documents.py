"""Read files of documents: BSON as `mongodump` writes it, or Extended JSON with one document per line.

Documents come in batches with the offset of each, for messages about one of them. Memory does not grow with
the file. The documents before a damaged place are yielded first; then `DamagedInputError` is raised.

The format follows from a name that ends in ``.bson``, ``.json``, ``.jsonl`` or ``.ndjson`` (and ``.gz`` after
that); for any other name from the first bytes. An archive of `mongodump` is known by its first bytes alone.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, DamagedInputError, UsageError
from tailrace.sources.archives import dump_archive
from tailrace.sources.archives.byte_streams import PIECE, ByteStream, open_stream
from tailrace.sources.archives.opening import open_sequential

MAX_BATCH: Final = 2000
"""Documents in a batch; its bytes are bounded by the size of a read."""
MAX_LINE: Final = 16 * rawbson.MAX_INTERNAL_SIZE
"""Bytes in a line of Extended JSON: more than any document needs."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_JSON_SUFFIXES: Final = frozenset({".json", ".jsonl", ".ndjson"})
_JSON_START: Final = re.compile(rb"\s*\{\s*[\"}]")
_read_int32 = rawbson.INT32_LE.unpack_from


@dataclass(slots=True)
class DocumentBatch:
    """Documents that follow each other in one file."""

    documents: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    """Where each document begins, in uncompressed bytes."""
    consumed: int = 0
    """Bytes read from the file on disk so far."""
    from_json: bool = False


def read_documents(path: str, *, is_oplog: bool = False) -> Generator[DocumentBatch, None, None]:
    """Return the documents of one file, which is open until the generator is exhausted or closed.

    ``is_oplog``: if the file is an archive of `mongodump`, return the oplog in it.
    """
    with open_sequential(path) as file:
        stream = open_stream(file, path)
        start = stream.read()
        if not start.startswith(dump_archive.MAGIC):
            is_json = _is_json(path, start)
            yield from _json_batches(path, stream, start) if is_json else _bson_batches(path, stream, start)
        elif is_oplog:
            yield from _archive_batches(path, stream, start)
        else:
            raise UsageError(
                f"{path} was written by mongodump --archive, in which only the oplog is looked for; use "
                "mongodump --out FOLDER, and name the file of the collection"
            )


def is_dump_archive(path: str) -> bool:
    """Whether a file was written by `mongodump --archive`, compressed or not."""
    with open_sequential(path) as file:
        return open_stream(file, path).read().startswith(dump_archive.MAGIC)


def known_suffix(path: str) -> str | None:
    """Return the format that a name shows, ``.bson`` or ``.json``; None if it shows none.

    >>> known_suffix("oplog.bson.gz"), known_suffix("oplog.rs.NDJSON"), known_suffix("oplog.gz")
    ('.bson', '.json', None)
    """
    suffix = PurePath(path.lower().removesuffix(".gz")).suffix
    if suffix in _JSON_SUFFIXES:
        return ".json"
    return suffix if suffix == ".bson" else None


def is_archive_name(path: str) -> bool:
    """Whether a name is one that files of documents have.

    >>> is_archive_name("s3://bucket/oplog.bson"), is_archive_name("s3://bucket/history")
    (True, False)
    """
    return known_suffix(path) is not None or path.lower().endswith(".gz")


def _is_json(path: str, start: bytes) -> bool:
    suffix = known_suffix(path)
    if suffix is not None:
        return suffix == ".json"
    # No BSON document is so long that the last byte of its length is a printable character.
    if start[3:4] > b"\x01":
        if not _JSON_START.match(start.removeprefix(_BYTE_ORDER_MARK)):
            raise DamagedInputError(path, 0, "its content is neither BSON nor lines of Extended JSON")
        return True
    return False


def _bson_batches(path: str, stream: ByteStream, buffer: bytes) -> Iterator[DocumentBatch]:
    base = 0  # the offset of the buffer's first byte
    while buffer:
        batch = DocumentBatch(consumed=stream.consumed)
        documents, offsets = batch.documents, batch.offsets
        damage = None
        position, end = 0, len(buffer)
        while end - position >= 4:
            length: int = _read_int32(buffer, position)[0]
            stop = position + length
            if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE:
                damage = f"impossible document length {length}"
                break
            if stop > end:
                break
            if buffer[stop - 1]:
                damage = "a document does not end in a NUL"
                break
            documents.append(buffer[position:stop])
            offsets.append(base + position)
            position = stop
            if len(documents) == MAX_BATCH:
                yield batch
                batch = DocumentBatch(consumed=stream.consumed)
                documents, offsets = batch.documents, batch.offsets
        if documents:
            yield batch
        base += position
        if damage is not None:
            raise DamagedInputError(path, base, damage)
        piece = stream.read()
        if not piece and position < end:
            raise DamagedInputError(path, base, "the file ends in the middle of a document")
        buffer = buffer[position:] + piece


def _archive_batches(path: str, stream: ByteStream, start: bytes) -> Iterator[DocumentBatch]:
    batch = DocumentBatch(consumed=stream.consumed)
    size = 0
    damage = None
    try:
        for offset, document in dump_archive.oplog_documents(path, stream, start):
            batch.documents.append(document)
            batch.offsets.append(offset)
            size += len(document)
            if len(batch.documents) == MAX_BATCH or size > PIECE:
                yield batch
                batch, size = DocumentBatch(consumed=stream.consumed), 0
    except DamagedInputError as error:
        damage = error
    if batch.documents:
        yield batch
    if damage is not None:
        raise damage


def _json_batches(path: str, stream: ByteStream, piece: bytes) -> Iterator[DocumentBatch]:
    base = 0  # the offset of the current line
    unfinished: list[bytes] = []  # the beginning of a line whose end is in a later piece
    size = 0  # its bytes
    if piece.startswith(_BYTE_ORDER_MARK):
        base, piece = len(_BYTE_ORDER_MARK), piece.removeprefix(_BYTE_ORDER_MARK)
    while piece or unfinished:
        lines = piece.split(b"\n")
        if len(lines) > 1 or not piece:
            lines[0] = b"".join([*unfinished, lines[0]])
            unfinished, size = [], 0
        if piece:  # its last line may continue in the next one
            unfinished.append(lines.pop())
            size += len(unfinished[-1])
        batch = DocumentBatch(consumed=stream.consumed, from_json=True)
        damage = None
        for line in lines:
            if line and not line.isspace():
                try:
                    batch.documents.append(_document_of(line))
                except ValueError as error:
                    damage = f"the line that begins there {error}"
                    break
                batch.offsets.append(base)
                if len(batch.documents) == MAX_BATCH:
                    yield batch
                    batch = DocumentBatch(consumed=stream.consumed, from_json=True)
            base += len(line) + 1
        if batch.documents:
            yield batch
        if damage is None and size > MAX_LINE:
            damage = "the line that begins there is longer than any document"
        if damage is not None:
            raise DamagedInputError(path, base, damage)
        piece = stream.read()


def _document_of(line: bytes) -> bytes:
    """Return the BSON of a line; raise `ValueError` with the reason if it is none."""
    try:
        document = extjson.loads(line.decode())
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except CommandError as error:
        raise ValueError(f"does not parse: {error.message}") from None
    if len(document) > rawbson.MAX_INTERNAL_SIZE:
        raise ValueError(f"holds a document of {len(document)} bytes, more than MongoDB allows")
    return document
