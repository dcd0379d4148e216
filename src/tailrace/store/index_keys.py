"""The keys under which an index lists a document."""

from tailrace.bsonio import keystring
from tailrace.bsonio import raw as rawbson
from tailrace.store.catalog import Index
from tailrace.store.tables import fitted


def index_keys(index: Index, document: bytes) -> list[bytes]:
    """The KeyStrings of a document, in order and without repetition; none if the index passes over it."""
    parts = []
    for path, _direction in index.key:
        found = rawbson.field(document, path.encode())
        parts.append(
            rawbson.element(rawbson.NULL, b"", b"")
            if found is None
            else rawbson.element(found[0], b"", found[1])
        )
    return [fitted(keystring.encode(rawbson.document(*parts)).data)]
