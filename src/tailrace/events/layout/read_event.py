"""The event of a document that was read before the changes of a stream: `operationType` is `read`."""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_document

READ: Final = "read"


class ReadEventFrame:
    """Makes the events of documents of one collection that were read at one cluster time."""

    __slots__ = ("_at", "_names")

    def __init__(self, namespace: str, at: int) -> None:
        database, _, collection = namespace.partition(".")
        names = rawbson.document(_text(b"db", database), _text(b"coll", collection))
        self._at = _text(b"operationType", READ) + rawbson.element(
            rawbson.TIMESTAMP, b"clusterTime", at.to_bytes(8, "little")
        )
        self._names = rawbson.element(rawbson.DOCUMENT, b"ns", names)

    def event(self, identifier: bytes, document: bytes) -> bytes:
        """The event of a document, with an identifier as BSON."""
        return rawbson.document(
            rawbson.element(rawbson.DOCUMENT, b"_id", identifier),
            self._at,
            rawbson.element(rawbson.DOCUMENT, b"fullDocument", document),
            self._names,
            rawbson.element(rawbson.DOCUMENT, b"documentKey", id_document(document)),
        )


def _text(name: bytes, text: str) -> bytes:
    value = text.encode()
    length = (len(value) + 1).to_bytes(4, "little")
    return rawbson.element(rawbson.STRING, name, length + value + b"\0")
