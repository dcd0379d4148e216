"""Check a collection: every record, every index key, every counter.

Each record is decoded and must be in every index under its keys; then the entries of the indexes are counted,
and where the number is wrong, each entry is checked. The check runs in steps, so that a server can do other
work in between.
"""

from collections.abc import Iterator
from typing import Any, Final

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import all_index_keys, stored_key
from tailrace.mongod.store.reader import Snapshot
from tailrace.sources.archives.soundness import check_sound

_MOST_SHOWN: Final = 100
_ABOVE_ALL_KEYS: Final = b"\xff"


class Validation:
    """One check of one collection; the results are valid once `steps` has run to its end."""

    def __init__(self, reader: Snapshot, collection: Collection) -> None:
        self._reader = reader
        self._collection = collection
        self.records = 0
        self.invalid_documents = 0
        self.keys_per_index = {index.name: 0 for index in collection.indexes}
        self.broken_indexes: set[str] = set()
        self.errors: list[str] = []
        self.corrupt_records: list[bytes] = []
        self.missing_entries: list[dict[str, Any]] = []
        self.extra_entries: list[dict[str, Any]] = []
        self._size = 0
        self._expected = {index.name: 0 for index in collection.indexes}

    @property
    def valid(self) -> bool:
        """Whether no fault was found."""
        return not self.errors

    def steps(self) -> Iterator[None]:
        """Check everything, a record or an index entry at a time."""
        for key, document in self._reader.records(self._collection):
            self._check_record(key, document)
            yield
        for index in self._collection.indexes:
            for _ in self._entries(index):
                self.keys_per_index[index.name] += 1
                yield
            number, expected = self.keys_per_index[index.name], self._expected[index.name]
            if number != expected:
                self._fault(index, f"it has {number} entries, not {expected}")
            # If every key of every record is there and there are no further entries, none is wrong.
            if index.name in self.broken_indexes:
                for position, record_key in self._entries(index):
                    self._check_entry(index, position, record_key)
                    yield
        self._check_count()

    def _check_record(self, key: bytes, document: bytes) -> None:
        self.records += 1
        self._size += len(document)
        try:
            _check_document(document)
            listed = {index.name: _stored_keys(index, key, document) for index in self._collection.indexes}
        except CommandError as error:
            self.invalid_documents += 1
            if len(self.corrupt_records) < _MOST_SHOWN:
                self.corrupt_records.append(key)
            self._error(f"the record {key.hex()} is not sound: {error.message}")
            return
        if self._collection.is_clustered and self._collection.id_key(document) != key:
            self._error(f"the record {key.hex()} is not where its _id belongs")
        for index in self._collection.indexes:
            self._expected[index.name] += len(listed[index.name])
            for stored in listed[index.name]:
                if self._reader.record_key_at(self._collection, index, stored) != key:
                    self._fault(index, f"the record {key.hex()} is not listed")
                    self._note(self.missing_entries, index, stored, document)

    def _check_entry(self, index: Index, position: bytes, record_key: bytes) -> None:
        document = self._reader.record(self._collection, record_key)
        if document is None:
            self._fault(index, f"an entry leads to the record {record_key.hex()}, which is not there")
            self._note(self.extra_entries, index, position, rawbson.EMPTY)
            return
        try:
            _check_document(document)
            is_expected = position in _stored_keys(index, record_key, document)
        except CommandError:
            return  # the document is not sound, which was reported already
        if not is_expected:
            self._fault(index, f"an entry of the record {record_key.hex()} has another key than the document")
            self._note(self.extra_entries, index, position, document)

    def _check_count(self) -> None:
        if self._collection.is_internal:
            return  # the server's own records are not all counted
        count, size = self._reader.count(self._collection)
        if count != self.records:
            self._error(f"the collection counts {count} documents, but has {self.records}")
        if size != self._size:
            self._error(f"the collection counts {size} bytes, but has {self._size}")

    def _entries(self, index: Index) -> Iterator[tuple[bytes, bytes]]:
        return self._reader.index_entries(self._collection, index, b"", _ABOVE_ALL_KEYS)

    def _fault(self, index: Index, reason: str) -> None:
        self.broken_indexes.add(index.name)
        self._error(f"the index {index.name}: {reason}")

    def _error(self, reason: str) -> None:
        if len(self.errors) < _MOST_SHOWN:
            self.errors.append(reason)

    @staticmethod
    def _note(noted: list[dict[str, Any]], index: Index, stored: bytes, document: bytes) -> None:
        if len(noted) < _MOST_SHOWN:
            identity = documents.decode(document).get("_id")
            noted.append({"indexName": index.name, "key": stored.hex(), "_id": identity})


def _check_document(document: bytes) -> None:
    """Raise what is wrong with a document; a sound one is recognised quickly."""
    if documents.encode(documents.decode(document)) != document:
        check_sound(document)


def _stored_keys(index: Index, record_key: bytes, document: bytes) -> list[bytes]:
    keys = all_index_keys(index, document)
    if index.is_id and not keys:
        return [b""]  # a key that no index has, so that a record without `_id` is reported as missing
    return [stored_key(index, key, record_key) for key in keys]
