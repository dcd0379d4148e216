"""Look up current documents in a running deployment, many at once."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, documents_of, session_at
from tailrace.sources.deployments.driver_errors import driver_errors

_MAJORITY: Final = ReadConcern("majority")
_COLLATED: Final = frozenset({rawbson.STRING, rawbson.SYMBOL, rawbson.DOCUMENT, rawbson.ARRAY})
"""Types of values that another one can be equal to under a collation."""
_ID: Final = b"_id"


class CurrentDocuments:
    """Current documents by the document key of an event."""

    def __init__(self, client: Client, uri: str, time: int) -> None:
        """Documents are read as they were at a cluster time, or later."""
        self._client = client
        self._uri = uri
        self._time = time

    def find(self, namespace: str, document_key: bytes, uuid: bytes | None = None) -> bytes | None:
        """Return the document with this key; None if there is none, or if the collection has another UUID."""
        with self._asking(namespace) as session:
            if uuid is not None and self._uuid_of(namespace) != uuid:
                return None
            return self._single(namespace, document_key, session)

    def find_all(
        self, namespace: str, keys: Collection[bytes], uuid: bytes | None = None
    ) -> dict[bytes, bytes]:
        """Return the documents with some keys, those that there are; asks once for all, if that is exact."""
        with self._asking(namespace) as session:
            if uuid is not None and self._uuid_of(namespace) != uuid:
                return {}
            plain = [key for key in keys if _is_plain(key)]
            found = _Claims(plain)
            if plain:
                for raw in self._read(namespace, _equal_to_any(plain), session):
                    found.add(raw)
            answers = {key: _only(namespace, documents) for key, documents in found.by_key.items()}
            alone = [key for key in keys if not _is_plain(key)]
            missing = [key for key in plain if key not in answers]
            if any(map(_may_be_collated, missing)) and self._has_collation(namespace):
                alone += missing
            for key in alone:
                answers[key] = self._single(namespace, key, session)
        return {key: raw for key, raw in answers.items() if raw is not None}

    @contextmanager
    def _asking(self, namespace: str) -> Iterator[ClientSession]:
        with (
            driver_errors(self._uri, rights.documents_of(namespace)),
            session_at(self._client, self._time) as session,
        ):
            yield session

    def _single(self, namespace: str, key: bytes, session: ClientSession) -> bytes | None:
        return _only(namespace, list(self._read(namespace, _equal_to(key), session, limit=2)))

    def _read(
        self, namespace: str, query: RawBSONDocument, session: ClientSession, limit: int = 0
    ) -> Iterator[bytes]:
        database, _, name = namespace.partition(".")
        collection = self._client[database].get_collection(name, read_concern=_MAJORITY)
        return documents_of(collection.find_raw_batches(query, session=session, limit=limit))

    def _uuid_of(self, namespace: str) -> bytes | None:
        described = self._described(namespace)
        return None if described is None else bytes(described["info"]["uuid"])

    def _has_collation(self, namespace: str) -> bool:
        """Whether different values may be equal; False if there is no such collection."""
        try:
            described = self._described(namespace)
        except OperationFailure as error:
            if error.code != ErrorCode.Unauthorized:
                raise
            return True  # it may have one
        return described is not None and "collation" in described["options"]

    def _described(self, namespace: str) -> Mapping[str, Any] | None:
        database, _, name = namespace.partition(".")
        for description in self._client[database].list_collections(filter={"name": name}):
            return description
        return None


class _Claims:
    """Documents by the document keys that they have; keys are equal if all of their values are."""

    def __init__(self, keys: Collection[bytes]) -> None:
        self._names = {_names(key) for key in keys}
        self._keys: dict[tuple[tuple[bytes, ...], bytes], list[bytes]] = defaultdict(list)
        for key in keys:
            self._keys[_names(key), keystring.encode(key).data].append(key)
        self.by_key: dict[bytes, list[bytes]] = defaultdict(list)

    def add(self, raw: bytes) -> None:
        for names in self._names:
            own = rawbson.document(*(_element_at(raw, name) for name in names))
            for key in self._keys.get((names, keystring.encode(own).data), ()):
                self.by_key[key].append(raw)


def _names(key: bytes) -> tuple[bytes, ...]:
    return tuple(name for _, name, _, _ in rawbson.elements(key))


def _element_at(raw: bytes, path: bytes) -> bytes:
    """The value at a path, which is null if there is none; in a shard key it is never inside of an array."""
    *outer, last = path.split(b".")
    inner: bytes | None = raw
    for name in outer:
        inner = None if inner is None else rawbson.subdocument(inner, name)
    kind, value = (inner and rawbson.field(inner, last)) or (rawbson.NULL, b"")
    return rawbson.element(kind, path, value)


def _only(namespace: str, found: Sequence[bytes]) -> bytes | None:
    if len(found) > 1:
        raise CommandError(
            ErrorCode.ChangeStreamFatalError,
            f"several documents of {namespace} have the document key of one event",
        )
    return found[0] if found else None


def _is_plain(key: bytes) -> bool:
    """Whether `$in` and `$or` take its values literally, and it selects one document."""
    return bool(_names(key)) and all(kind != rawbson.REGEX for kind, _, _, _ in rawbson.elements(key))


def _may_be_collated(key: bytes) -> bool:
    return any(kind in _COLLATED for kind, _, _, _ in rawbson.elements(key))


def _equal_to_any(keys: Collection[bytes]) -> RawBSONDocument:
    """Return a filter for documents with one of some keys."""
    if any(_names(key) != (_ID,) for key in keys):
        branches = [(rawbson.DOCUMENT, bytes(_equal_to(key).raw)) for key in keys]
        return RawBSONDocument(rawbson.document(_array(b"$or", branches)))
    values = [(kind, key[start:end]) for key in keys for kind, _, start, end in rawbson.elements(key)]
    among = rawbson.document(_array(b"$in", values))
    return RawBSONDocument(rawbson.document(rawbson.element(rawbson.DOCUMENT, _ID, among)))


def _array(name: bytes, values: Sequence[tuple[int, bytes]]) -> bytes:
    items = (rawbson.element(kind, b"%d" % place, value) for place, (kind, value) in enumerate(values))
    return rawbson.element(rawbson.ARRAY, name, rawbson.document(*items))


def _equal_to(document_key: bytes) -> RawBSONDocument:
    """Return a filter on every field of a key; ``$eq`` takes values literally."""
    conditions = []
    for kind, name, start, end in rawbson.elements(document_key):
        condition = rawbson.document(rawbson.element(kind, b"$eq", document_key[start:end]))
        conditions.append(rawbson.element(rawbson.DOCUMENT, name, condition))
    return RawBSONDocument(rawbson.document(*conditions))
