"""The head of a source: its newest entries in memory, older ones read from its oplog."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.log.event_log import Slice
from tailrace.log.head import HeadLog, place_lost
from tailrace.mongod.front.source_store import SourceStore


class SourceHead(HeadLog):
    """See `HeadLog`. What is read from the source is read in other threads, while others have their turn."""

    def __init__(self, store: SourceStore) -> None:
        super().__init__(store, shard=store.source.name)
        self._source_store = store
        store.remembered = self._remembered

    def check_start(self, start: int) -> None:
        """See `EventLog`; the source is asked, as it removes entries at any time."""
        self._source_store.questions.ask(self._source_store.refresh_oldest)
        super().check_start(start)

    @property
    def lost_through(self) -> int:
        """The cluster time of the newest entry that neither the source has nor memory."""
        return min(super().lost_through, self._begins_after)

    def _load(self, after: int, end: int) -> Slice:
        questions = self._source_store.questions
        try:
            return questions.ask(super()._load, after, end)
        except CommandError as error:
            if error.code != ErrorCode.ChangeStreamHistoryLost:
                raise
            questions.ask(self._source_store.refresh_oldest)
            raise place_lost(after) from None

    def _remembered(self, ts: int) -> bytes | None:
        for item in self.in_memory(ts - 1, ts) or ():
            return item.entry.raw
        return None
