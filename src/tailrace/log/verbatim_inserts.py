"""The inserts of a vectored entry, rendered together.

Most of what a busy server logs are entries with hundreds of inserts into one collection. A stream that shows
inserts verbatim needs no event object for each: they are rendered together (`render_inserts`), once for all
streams of equal shape. `tests/laws/` compares the bytes with those of the general code.
"""

from collections.abc import Sequence

from tailrace.events.change_event import EventKind
from tailrace.events.entry_reader import InsertedDocuments
from tailrace.events.layout.fields import verbatim_shape
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.render import render_inserts
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.events.stages.stage import VerbatimRow


class VerbatimInserts:
    """The inserts of one entry into one collection."""

    __slots__ = ("_entry", "_inserted", "_kind", "_shown", "head")

    def __init__(self, entry: OplogEntry, kind: EventKind, inserted: InsertedDocuments) -> None:
        self.head = inserted.head
        self._entry = entry
        self._kind = kind
        self._inserted = inserted
        self._shown: dict[bool, list[bytes] | None] = {}

    def __len__(self) -> int:
        return len(self._inserted.documents)

    def seen_by(
        self, scope: ScopeMatch, *, expanded: bool, only_inserts: bool
    ) -> Sequence[VerbatimRow] | None:
        del only_inserts  # there is nothing else
        if not scope.sees_head(self.head):
            return ()
        return self.rows(expanded=expanded)

    def rows(self, *, expanded: bool) -> list[VerbatimRow] | None:
        """Return the events in order; None if they have to be rendered one by one."""
        if expanded not in self._shown:
            self._shown[expanded] = render_inserts(
                self._kind, self._entry, self._inserted, verbatim_shape(expanded=expanded)
            )
        shown = self._shown[expanded]
        if shown is None:
            return None
        ts = self._entry.ts
        return [VerbatimRow(raw, ts) for raw in shown]
