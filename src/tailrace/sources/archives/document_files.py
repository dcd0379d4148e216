"""Look up current documents in `mongodump` files, for streams that show them.

A document is found by the whole document key of an event: the shard key's fields, whose names may be paths,
and `_id`. The file is searched by `_id`, then the other fields are compared. Values compare as in MongoDB:
``1`` is ``1.0``, and a missing field equals null.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.sources.archives.keyed_file import KeyedFile
from tailrace.sources.archives.opening import StoredPath, open_sequential

_NULL: Final = keystring.encode(rawbson.document(rawbson.element(rawbson.NULL, b"", b""))).data


class DocumentFiles:
    """The documents of dumped collections; a collection may be spread over several files."""

    def __init__(self, paths: Mapping[str, Sequence[str]]) -> None:
        self._collections = {ns: [_CollectionFile(path) for path in files] for ns, files in paths.items()}

    def __enter__(self) -> "DocumentFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for files in self._collections.values():
            for file in files:
                file.documents.close()

    def find(self, namespace: str, document_key: bytes, uuid: bytes | None = None) -> bytes | None:
        """Return the document with this key; None if there is none, or if the collection has another UUID."""
        found = set()
        for file in self._collections.get(namespace, ()):
            if uuid is None or file.uuid in (None, uuid):
                found |= file.find(document_key)
        if len(found) > 1:
            raise CommandError(
                ErrorCode.ChangeStreamFatalError,
                f"several documents of {namespace} have the document key of one event",
            )
        return found.pop() if found else None


class _CollectionFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self.documents = KeyedFile(path, _id_key)

    def find(self, document_key: bytes) -> set[bytes]:
        if rawbson.find(document_key, b"_id") is None:
            return set()
        return {raw for raw in self.documents.find(_id_key(document_key)) if _has_key(raw, document_key)}

    @cached_property
    def uuid(self) -> bytes | None:
        """The collection's UUID, which `mongodump` writes into a second file; None if there is none."""
        base = self._path.removesuffix(".gz").removesuffix(".bson")
        for end in ("", ".gz"):
            metadata = f"{base}.metadata.json{end}"
            try:
                path = self._path.beside(metadata) if isinstance(self._path, StoredPath) else metadata
                with open_sequential(path) as file:
                    packed = file.read()
                return bytes.fromhex(json.loads(gzip.decompress(packed) if end else packed)["uuid"])
            except (OSError, EOFError, ValueError, KeyError, TypeError, UsageError):
                continue
        return None


def _id_key(raw: bytes) -> bytes:
    return _key_at(raw, b"_id")


def _has_key(raw: bytes, document_key: bytes) -> bool:
    return all(
        _key_at(raw, name) == _key(document_key, kind, start, end)
        for kind, name, start, end in rawbson.elements(document_key)
    )


def _key_at(raw: bytes, path: bytes) -> bytes:
    """Return the KeyString of the value at a dotted path; null's if there is no value."""
    *parents, name = path.split(b".")
    for parent in parents:
        inner = rawbson.subdocument(raw, parent)
        if inner is None:
            return _NULL
        raw = inner
    found = rawbson.find(raw, name)
    if found is None:
        return _NULL
    kind, _, start, end = found
    return _key(raw, kind, start, end)


def _key(raw: bytes, kind: int, start: int, end: int) -> bytes:
    return keystring.encode(rawbson.document(rawbson.element(kind, b"", raw[start:end]))).data
