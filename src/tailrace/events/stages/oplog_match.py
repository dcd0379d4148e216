"""Stage 1: drop the entries that no event of this stream comes from, before they are unwound and transformed.

A pre-filter: the rules of visibility (`scope_match.py`), asked about entries as far as these show it, and the
user's leading `$match` as far as it could be rewritten onto entries. It may let too much through, never too
little. An entry that it drops cannot make the stream fail.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.commit_entry import COMMIT
from tailrace.events.entry_reader import EntryReader
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN, Head, OplogEntry
from tailrace.events.stages.rewrites.push_down import PushedMatch
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.unwind_transaction import CONTAINERS
from tailrace.events.stages.visibility import Visibility, applied_by_user, takes_effect

EntryPredicate: TypeAlias = Callable[[OplogEntry], bool]

_NOTHING_PUSHED: Final = PushedMatch()
_DOCUMENT_CHANGES: Final = frozenset("iud")


class EntryFilter:
    """The pre-filter of one stream, for whole entries and for operations inside transactions."""

    def __init__(self, scope: ScopeMatch, pushed: PushedMatch = _NOTHING_PUSHED) -> None:
        self.scope = scope
        self._pushed = pushed
        self._by_head: dict[Head, bool | None] = {}

    def sees_plain(self, head: Head) -> bool | None:
        """Decide for an entry without extras; None if its head alone does not decide."""
        try:
            return self._by_head[head]
        except KeyError:
            decision = self.scope.sees_head(head)
            pushed = self._pushed.operation
            if decision and pushed is not None:
                decision = pushed.of_head(head) if head.op in _DOCUMENT_CHANGES else None
            return remember(self._by_head, head, decision)

    def sees(self, entry: OplogEntry) -> bool:
        """Return whether this entry may lead to events of the stream."""
        op = entry.head.op
        command = entry.command if op == "c" else ""
        if command in CONTAINERS:
            return (
                self.scope.passes_flags(entry)
                and (command == COMMIT or self._sees_transaction(entry))
                and _passes(self._pushed.transaction, entry)
            )
        return self.scope.sees_entry(entry) and (
            op == "n" or self.scope.invalidates(command) or _passes(self._pushed.operation, entry)
        )

    @property
    def knows_bytes(self) -> bool:
        """Whether `may_see_inner` can be False."""
        pushed = self._pushed.inner
        return pushed is not None and pushed.knows_bytes

    def places(self, operations: bytes) -> list[int] | None:
        """Return where an operation must be that leads to an event, as `EntryTest.places`."""
        pushed = self._pushed.inner
        return None if pushed is None else pushed.places(operations)

    def may_see_inner(self, raw: bytes, op: int) -> bool:
        """Return whether the bytes of an operation inside a transaction do not exclude an event."""
        pushed = self._pushed.inner
        return pushed is None or pushed.may_pass(raw, op)

    def sees_inner(self, entry: OplogEntry) -> bool:
        """Return whether an operation inside a transaction may lead to an event of the stream."""
        return self.scope.sees_inner(entry) and _passes(self._pushed.inner, entry)

    def sees_any(self, namespaces: list[str]) -> bool:
        """Return whether one of these namespaces is watched."""
        return self.scope.sees_any(namespaces)

    def may_show(self, event: ChangeEvent) -> bool:
        """Pre-filter an event of the log; its entry is there, or the event can be shown without errors."""
        if not self.scope.sees(event):
            return False
        pushed, entry = self._pushed, event.entry
        head = entry.head
        if pushed.document is None or head.op == "n":
            return True
        if not entry.raw:
            return pushed.ops is None or head.op in pushed.ops
        if entry.extras.in_apply_ops:
            return _passes(pushed.inner, entry)
        is_end = head.op == "c" and self.scope.invalidates(entry.command)
        return is_end or _passes(pushed.operation, entry)

    def ignores(self, head: Head) -> bool:
        """Return whether no document change of a kind is shown, wherever it is."""
        pushed = self._pushed
        is_other = pushed.document is not None and pushed.ops is not None and head.op not in pushed.ops
        return is_other or self.scope.sees_head(head) is False

    def _sees_transaction(self, entry: OplogEntry) -> bool:
        """Whether an applyOps takes effect at its own position and may hold something of this stream."""
        if not self.scope.shows_applied and applied_by_user(entry):
            return False
        operations = rawbson.find(entry.o, b"applyOps")
        if operations is None or operations[0] != rawbson.ARRAY or not takes_effect(entry.o):
            return False
        previous = entry.extras.previous
        # Only a link that says "there is nothing before this" shows that these are all operations there are.
        if previous is None or not previous.is_null:
            return True
        return any(
            kind == rawbson.DOCUMENT and self.scope.names_watched(entry.o[start:end])
            for kind, _, start, end in rawbson.elements(entry.o, operations[2])
        )


def _passes(predicate: EntryPredicate | None, entry: OplogEntry) -> bool:
    return predicate is None or predicate(entry)


class OplogMatch:
    """Reads raw entries and keeps those from ``start`` on that the filter lets through."""

    def __init__(self, visible: Visibility, reader: EntryReader, start: int) -> None:
        self._visible = visible
        self._reader = reader
        self._start = start
        self.scanned = 0
        """The cluster time of the newest entry read, kept or not."""

    def __call__(self, batch: Batch[bytes]) -> Batch[OplogEntry]:
        kept: list[OplogEntry] = []
        keep = kept.append
        read = self._reader.read
        sees_plain = self._visible.sees_plain
        start = self._start
        scanned = self.scanned
        try:
            for raw in batch.items:
                entry = read(raw)
                scanned = entry.ts
                if scanned < start:
                    continue
                decision = sees_plain(entry.head) if entry.extras is PLAIN else None
                if decision is None:
                    decision = self._visible.sees(entry)
                if decision:
                    keep(entry)
        except CommandError as error:
            # The time of an entry that cannot be read is not known, but it is later than the last one.
            return batch.having(kept, error, scanned + 1)
        finally:
            self.scanned = scanned
        return batch.having(kept)
