"""The catalog of a cluster at an earlier time."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection


class EarlierCatalog(Catalog):
    """Refuses collections that were somewhere else then, and of which that shard has nothing any more.

    A database that moved to another shard, and a collection that was resharded, are copies; the documents
    from before are gone with the original.
    """

    __slots__ = ("_later",)

    def __init__(self, found: Catalog, later: Catalog) -> None:
        """``found`` has the collections that the shards still have; ``later`` is the newest catalog."""
        self.share(found)
        self._later = later

    def collection(self, ns: str) -> Collection | None:
        """The collection; SnapshotUnavailable (246) if there is one of that name, but not from then."""
        found = super().collection(ns)
        if found is None and self._later.collection(ns) is not None:
            raise CommandError(
                ErrorCode.SnapshotUnavailable,
                f"Unable to read {ns} from a snapshot: it was created, moved or resharded since; "
                "please retry the operation.",
            )
        return found
