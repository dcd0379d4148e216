"""One replica set whose oplog is read: the source itself, or a shard of it.

Everything here asks the servers through PyMongo and waits for them, so it runs in other threads than the
event loop's.
"""

from collections.abc import Sequence
from functools import cached_property

from tailrace.errors import UsageError
from tailrace.events.stages.lookups import DocumentQuestion, PreImageQuestion
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.current_documents import CurrentDocuments
from tailrace.sources.deployments.driver_errors import hosts_of
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.deployments.stored_pre_images import StoredPreImages


class SourceShard:
    def __init__(self, oplog: ShardOplog, documents: tuple[Client, str], name: str = "") -> None:
        """``documents`` is where current documents are found: a client and its connection string.

        Of a cluster that is the router, because a document may have moved to another shard.
        """
        self.oplog = oplog
        self.name = name
        self.address = hosts_of(oplog.uri)
        """Where it is reached, without credentials."""
        self._documents = documents
        newest = oplog.newest()
        if newest is None:
            raise UsageError(f"the oplog of {self.address} has no entries; is the replica set initiated?")
        self.newest = oplog.mark_of(newest)
        """The newest majority committed entry when it was opened."""

    @cached_property
    def identity(self) -> str:
        """The id that the replica set has for life."""
        return self.oplog.replica_set_id()

    def newest_time(self) -> int:
        """The time of the newest majority committed entry now."""
        newest = self.oplog.newest()
        return 0 if newest is None else entry_time(newest)

    # -- look-ups -----------------------------------------------------------------------------------------

    def entry(self, through: int, ts: int, term: int) -> bytes | None:
        """The entry of a cluster time and term; ``through`` is a majority committed time not before it."""
        return self.oplog.entry(through, ts, term)

    def pre_images(self, through: int, wanted: Sequence[PreImageQuestion]) -> dict[PreImageQuestion, bytes]:
        """The documents before some operations, those that are stored."""
        return StoredPreImages(self.oplog.client, self.oplog.uri, through, through).find_all(wanted)

    def documents(self, through: int, wanted: Sequence[DocumentQuestion]) -> dict[DocumentQuestion, bytes]:
        """The documents with some keys in one collection, as they are at a cluster time or later."""
        ns, _, uuid = wanted[0]
        found = CurrentDocuments(*self._documents, through).find_all(ns, [key for _, key, _ in wanted], uuid)
        return {(ns, key, uuid): document for key, document in found.items()}


class RecordedShard(SourceShard):
    """One whose change stream is read: events have their images with them."""

    def pre_images(self, through: int, wanted: Sequence[PreImageQuestion]) -> dict[PreImageQuestion, bytes]:  # noqa: ARG002
        return {}
