"""Find the documents of a collection that oplog entries have changed.

A copy of a collection that is being written to uses this to find what has to be copied again. Only the `_id`s
are collected; the current documents are read from the store.
"""

from collections.abc import Iterator

from tailrace.bson import raw as rawbson
from tailrace.events.commit_entry import is_commit, may_be_commit
from tailrace.events.oplog_entry import OplogEntry, parse_entry
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.reader import Snapshot
from tailrace.query.collation import Collation


def changed_documents(snapshot: Snapshot, uuid: bytes, after: int) -> set[bytes]:
    """The keys of the `_id`s of a collection's documents that are named in entries after a cluster time.

    Some may not have changed: the operations of a prepared transaction count before it commits.
    """
    collection = snapshot.catalog.by_uuid(uuid)
    collation = None if collection is None else collection.collation
    found: set[bytes] = set()
    for _, raw in snapshot.entries(after):
        if uuid in raw:
            found |= _named(raw, uuid, collation)
        elif may_be_commit(raw):
            for part in _parts(snapshot, parse_entry(raw)):
                found |= _named(part, uuid, collation)
    return found


def _parts(snapshot: Snapshot, entry: OplogEntry) -> Iterator[bytes]:
    """The entries of a prepared transaction, found from its commit entry."""
    if not is_commit(entry):
        return
    link = entry.extras.previous
    while link is not None and not link.is_null:
        raw = snapshot.entry(link.ts)
        if raw is None:
            return  # an entry is not truncated before its transaction has ended
        yield raw
        link = parse_entry(raw).extras.previous


def _named(raw: bytes, uuid: bytes, collation: Collation | None) -> set[bytes]:
    entry = parse_entry(raw)
    operations = [raw]
    if entry.head.op == "c":
        array = rawbson.find(entry.o, b"applyOps")
        places = () if array is None else rawbson.subdocument_places(entry.o, array[2])
        operations = [entry.o[place[0] : place[1]] for place in places if place is not None]
    return {key for operation in operations for key in _name(operation, uuid, collation)}


def _name(operation: bytes, uuid: bytes, collation: Collation | None) -> Iterator[bytes]:
    """The `_id` of the document that an operation changes; none for other operations."""
    fields = {name: operation[start:end] for _, name, start, end in rawbson.elements(operation)}
    if not fields.get(b"ui", b"").endswith(uuid):
        return
    kind = fields.get(b"op", b"")[4:-1]
    if kind in (b"i", b"d", b"u"):
        key = id_key_of(fields[b"o2" if kind == b"u" else b"o"], collation)
        if key is not None:
            yield key
