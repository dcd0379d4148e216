"""Look-ups of the stages, in the newest state of a store."""

from collections.abc import Callable

from tailrace.events.pre_image_key import image_in
from tailrace.events.stages.lookups import Lookups
from tailrace.mongod.store.indexes.id_keys import has_key
from tailrace.mongod.store.reader import Snapshot


def store_lookups(open_snapshot: Callable[[], Snapshot]) -> Lookups:
    """The look-ups of a store; each call opens a snapshot."""

    def entry(ts: int, _term: int) -> bytes | None:
        with open_snapshot() as snapshot:
            return snapshot.entry(ts)

    def pre_image(uuid: bytes, ts: int, index: int) -> bytes | None:
        with open_snapshot() as snapshot:
            stored = snapshot.pre_image(uuid, ts, index)
        return None if stored is None else image_in(stored)

    def document(ns: str, key: bytes, uuid: bytes | None) -> bytes | None:
        with open_snapshot() as snapshot:
            return find_document(snapshot, ns, key, uuid)

    return Lookups(entry, pre_image, document)


def find_document(snapshot: Snapshot, ns: str, key: bytes, uuid: bytes | None) -> bytes | None:
    """Find the document of a key; its collection must have ``uuid``, unless that is None."""
    collection = snapshot.catalog.collection(ns)
    if collection is None or (uuid is not None and collection.uuid != uuid):
        return None
    by_id = collection.id_key(key)
    found = None if by_id is None else snapshot.find_id(collection, by_id)
    return None if found is None or not has_key(found[1], key) else found[1]
