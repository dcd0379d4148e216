"""A collection as it was at a moment, rebuilt from a history."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from bson import Timestamp

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.errors import HistoryError, UsageError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import from_timestamp, in_words, through_timestamp
from tailrace.events.resume_token import cluster_time_of
from tailrace.events.scope import Namespace
from tailrace.lake.event_reader import EventReader
from tailrace.lake.past.base import Bases
from tailrace.lake.past.fold import FoldedDocuments, identity_in, identity_of
from tailrace.lake.past.lineage import Lineage, find_lineage
from tailrace.lake.schema import STREAM_COLUMNS
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable

if TYPE_CHECKING:
    import polars

_CHANGES = pa.array(["insert", "update", "replace", "delete"])


def as_of(
    history: str | PathLike[str],
    namespace: str,
    at: datetime | Timestamp | str | Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, str] | None = None,
) -> "CollectionAsOf":
    """Return a collection as it was at a moment; ``history`` is a folder or the URL of an object store.

    ``at`` is a time, whose whole second counts and which is UTC without an offset; a cluster time, with the
    changes of that time; a resume token, with its event; or None for the end of the history. ``options`` are
    those of the object store, by default what the environment has.

    Raises `HistoryError` if the history does not have all changes of the collection until then: it has to
    reach back to the creation of the collection, or to a snapshot of it (`record_snapshot`).

        for order in tailrace.as_of("events", "shop.orders", datetime(2026, 1, 1)):
            print(order)
    """
    table = HistoryTable.open(history, options)
    name = Namespace.parse(namespace)
    through, token = _moment(table, at)
    if through > table.through:
        raise HistoryError(
            f"the history in {table.place} goes up to {in_words(table.through)}, and {in_words(through)} is "
            "after that; ask for an earlier time, or wait until the pipeline is there"
        )
    if through < table.begins:
        raise HistoryError(
            f"the history in {table.place} begins with {in_words(table.begins)}, and {in_words(through)} is "
            "before that; ask for a later time"
        )
    given = None if options is None else dict(options)
    return CollectionAsOf(fspath(history), given, find_lineage(table, name, through), through, token)


def _moment(table: HistoryTable, at: Any) -> tuple[int, str | None]:
    """The last cluster time that counts, and the token of the last event there."""
    if at is None:
        return table.through, None
    if isinstance(at, Timestamp):
        return from_timestamp(at), None
    if isinstance(at, datetime):
        moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        # A history that has not reached the end of the second may still get changes in it.
        return through_timestamp(int(moment.timestamp() * 1000)), None
    token = at.get("_data") if isinstance(at, Mapping) else at
    if not isinstance(token, str):
        raise UsageError("a collection is asked for at a datetime, a Timestamp or a resume token")
    return cluster_time_of(token), token


class CollectionAsOf:
    """The documents of a collection at one moment, those of a snapshot first, then as they were inserted.

    They are rebuilt each time they are asked for; all of them are in memory meanwhile. Can be pickled.
    """

    def __init__(
        self,
        history: str,
        options: Mapping[str, str] | None,
        lineage: Lineage | None,
        through: int,
        token: str | None,
    ) -> None:
        self._history = history
        self._options = options
        self._lineage = lineage
        self._through = through
        self._token = token

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The decoded documents."""
        return map(documents.decode, self.raw())

    def raw(self) -> Iterator[bytes]:
        """The documents as BSON, byte for byte as they were stored."""
        return iter(self._folded())

    def to_arrow(self) -> pa.Table:
        """A column for each field, with types that fit all values (docs/tables.md)."""
        from tailrace.lake.columns.column_types import Layout
        from tailrace.lake.columns.convert import convert

        return pa.Table.from_batches([convert(list(self.raw()), Layout()).columns])

    def to_polars(self) -> "polars.DataFrame":
        """The same as a frame of Polars."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def share(self, number: int, of: int) -> Iterator[bytes]:
        """The documents of one of several tasks, by a digest of their `_id`."""
        return iter(self._folded(lambda identity: zlib.crc32(identity) % of == number))

    def _folded(self, is_wanted: Callable[[bytes], bool] | None = None) -> FoldedDocuments:
        folded = FoldedDocuments()
        lineage = self._lineage
        if lineage is None:
            return folded
        options = self._options if self._options is not None else store_options(None)
        table = HistoryTable.open(self._history, options)
        reader = EventReader()
        uuids = pa.array(sorted(lineage.uuids))
        after, copied = lineage.after, None
        if lineage.base is not None:
            base = Bases(table.store, table.begins).of(lineage.base)
            after, copied = base.first, base.state
            for document in base.documents():
                if is_wanted is None or is_wanted(identity_in(document)):
                    folded.add(document)
        for batch in table.read(after, self._through, columns=STREAM_COLUMNS):
            wanted = pc.and_(
                pc.is_in(batch.column("uuid").cast(pa.string()), value_set=uuids),
                pc.is_in(batch.column("operation").cast(pa.string()), value_set=_CHANGES),
            )
            if self._token is not None:
                wanted = pc.and_(wanted, pc.less_equal(batch.column("token"), self._token))
            events = reader.events(batch.filter(wanted))
            if is_wanted is not None:
                events = [event for event in events if is_wanted(identity_of(event))]
            if copied is not None:
                events = [event for event in events if copied.applies(_key(event), event.entry.ts)]
            folded.apply(events)
        return folded


def _key(event: ChangeEvent) -> bytes:
    return id_key(event.document_key or rawbson.EMPTY)
