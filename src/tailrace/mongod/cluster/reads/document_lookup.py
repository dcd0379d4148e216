"""Find a document of the cluster by its key, for the streams of routers."""

from collections.abc import Mapping

from tailrace.events.stages.lookups import DocumentLookup
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.store.lookups import find_document
from tailrace.mongod.store.store import Store


def document_lookup(placement: Placement, stores: Mapping[str, Store]) -> DocumentLookup:
    """A function that finds the current version of a document on the shard that owns it.

    Documents on different shards may have the same `_id`, so the whole document key is compared.
    """

    def find(ns: str, key: bytes, uuid: bytes | None) -> bytes | None:
        sharded = placement.sharded(ns)
        for shard in placement.shards_of(ns):
            with stores[shard].snapshot() as snapshot:
                document = find_document(snapshot, ns, key, uuid)
            if document is not None and (sharded is None or sharded.owns(shard, document)):
                return document
        return None

    return find
