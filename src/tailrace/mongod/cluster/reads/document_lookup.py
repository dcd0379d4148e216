"""Finding a document of the cluster by its key, for the streams of routers."""

from collections.abc import Mapping

from tailrace.events.stages.lookups import DocumentLookup
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.store.lookups import find_document
from tailrace.mongod.store.store import Store


def document_lookup(placement: Placement, stores: Mapping[str, Store]) -> DocumentLookup:
    """What finds the newest version of a document on the shard that owns it.

    A sharded collection may have an `_id` on several shards: it takes the whole key to tell them apart.
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
