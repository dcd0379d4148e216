"""Look up pre-images and current documents in a running deployment."""

from collections.abc import Iterator
from typing import Any, Final

from bson import MaxKey
from bson.raw_bson import RawBSONDocument
from pymongo.read_concern import ReadConcern

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.pre_image_key import image_in, pre_image_identifier, pre_image_key, pre_image_key_of
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, documents_of, session_at
from tailrace.sources.deployments.driver_errors import driver_errors

_MAJORITY: Final = ReadConcern("majority")


class StoredPreImages:
    """The pre-images of one shard for the events of an interval.

    Events need them in the order in which they are stored, so one cursor for each collection reads them all.
    An image from before the interval, of a transaction that began there, needs a second query.
    """

    def __init__(self, client: Client, uri: str, after: int, through: int) -> None:
        self._client = client
        self._uri = uri
        self._after = after
        self._through = through
        self._readers: dict[bytes, _ImageReader] = {}

    def find(self, uuid: bytes, ts: int, apply_ops_index: int) -> bytes | None:
        """Return the document before an operation of the entry at ``ts``; None if it is not stored."""
        reader = self._readers.get(uuid)
        if reader is None:
            reader = self._readers[uuid] = _ImageReader(self._in_interval(uuid))
        key = pre_image_key(uuid, ts, apply_ops_index)
        if ts <= self._after or key < reader.asked:
            return self._single(uuid, ts, apply_ops_index)
        return reader.find(key)

    def _in_interval(self, uuid: bytes) -> Iterator[bytes]:
        first = pre_image_identifier(uuid, self._after + 1, 0)
        last = pre_image_identifier(uuid, self._through, MaxKey())
        return self._read({"_id": {"$gte": first, "$lte": last}})

    def _single(self, uuid: bytes, ts: int, index: int) -> bytes | None:
        for raw in self._read({"_id": pre_image_identifier(uuid, ts, index)}):
            return image_in(raw)
        return None

    def _read(self, query: dict[str, Any]) -> Iterator[bytes]:
        images = self._client.config.get_collection("system.preimages", read_concern=_MAJORITY)
        with (
            driver_errors(self._uri, rights.PRE_IMAGES),
            session_at(self._client, self._through) as session,
        ):
            yield from documents_of(images.find_raw_batches(query, sort=[("_id", 1)], session=session))


class _ImageReader:
    """A cursor on the images of one collection."""

    def __init__(self, images: Iterator[bytes]) -> None:
        self._images = images
        self._next: tuple[bytes, bytes] | None = None
        self.asked = b""
        """The largest key asked for so far."""

    def find(self, key: bytes) -> bytes | None:
        self.asked = key
        while self._next is None or self._next[0] < key:
            raw = next(self._images, None)
            if raw is None:
                return None
            self._next = pre_image_key_of(raw), raw
        found, raw = self._next
        return image_in(raw) if found == key else None


class CurrentDocuments:
    """Current documents by the document key of an event."""

    def __init__(self, client: Client, uri: str, time: int) -> None:
        """Documents are read as they were at a cluster time, or later."""
        self._client = client
        self._uri = uri
        self._time = time

    def find(self, namespace: str, document_key: bytes, uuid: bytes | None = None) -> bytes | None:
        """Return the document with this key; None if there is none, or if the collection has another UUID."""
        database, _, name = namespace.partition(".")
        collection = self._client[database].get_collection(name, read_concern=_MAJORITY)
        query = _equal_to(document_key)
        with (
            driver_errors(self._uri, rights.documents_of(namespace)),
            session_at(self._client, self._time) as session,
        ):
            if uuid is not None and self._uuid_of(database, name) != uuid:
                return None
            found = list(documents_of(collection.find_raw_batches(query, limit=2, session=session)))
        if len(found) > 1:
            raise CommandError(
                ErrorCode.ChangeStreamFatalError,
                f"several documents of {namespace} have the document key of one event",
            )
        return found[0] if found else None

    def _uuid_of(self, database: str, name: str) -> bytes | None:
        for description in self._client[database].list_collections(filter={"name": name}):
            return bytes(description["info"]["uuid"])
        return None


def _equal_to(document_key: bytes) -> RawBSONDocument:
    """Return a filter on every field of a key; ``$eq`` takes values literally."""
    conditions = []
    for kind, name, start, end in rawbson.elements(document_key):
        condition = rawbson.document(rawbson.element(kind, b"$eq", document_key[start:end]))
        conditions.append(rawbson.element(rawbson.DOCUMENT, name, condition))
    return RawBSONDocument(rawbson.document(*conditions))
