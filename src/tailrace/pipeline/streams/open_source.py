"""Open the source that the user's options name."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UsageError
from tailrace.pipeline.streams.event_source import EventSource
from tailrace.sources.recorded.via import Via


@dataclass(frozen=True)
class SourceOptions:
    """What events are made from; exactly one of the first three is given."""

    uri: str | None = None
    history: str | None = None
    oplogs: Mapping[str, tuple[str, ...]] | None = None
    """Archived files by shard; a replica set is the shard without a name."""
    pre_images: Mapping[str | None, tuple[str, ...]] | None = None
    documents: Mapping[str, tuple[str, ...]] | None = None
    """Dumps of collections by namespace, for `updateLookup` on archived files."""
    store_file: str | None = None
    """A file with the options of the history's object store; None for those of the environment."""
    rebuilds_images: bool = False
    """Whether images that the history does not have are rebuilt from it."""
    via: Via | None = None
    """How the changes of a deployment are read; None for its oplog, if that is allowed."""

    @property
    def names_shards(self) -> bool:
        """Whether the options alone show that these are the oplogs of a cluster."""
        return self.oplogs is not None and set(self.oplogs) != {""}


def open_source(options: SourceOptions) -> EventSource:
    """Open the source; raises `UsageError` if it cannot be reached or read.

    Imports only what it needs: Spark starts several processes for a query, and each of them opens it.
    """
    if options.uri is not None:
        from tailrace.pipeline.streams.oplog_events import OplogEvents
        from tailrace.sources.recorded.choice import open_deployment

        return OplogEvents(open_deployment(options.uri, options.via))
    if options.oplogs is not None:
        from tailrace.lake.storage.store_options import store_options
        from tailrace.pipeline.streams.oplog_events import OplogEvents
        from tailrace.sources.archives.files import FilesSource

        store = None if options.store_file is None else store_options(options.store_file)
        files = FilesSource(options.oplogs, options.pre_images, options.documents, store)
        return OplogEvents(files, is_archive=True)
    if options.history is not None:
        from tailrace.pipeline.streams.history_events import HistoryEvents

        return HistoryEvents(
            options.history, options.documents, options.store_file, rebuilds_images=options.rebuilds_images
        )
    raise UsageError("name one source: uri for a deployment, history for a table, oplog or oplogs for files")
