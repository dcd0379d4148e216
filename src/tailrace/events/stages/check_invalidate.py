"""Stage 4: the end of a stream whose collection or database is gone.

A drop or rename of what is watched is followed by an `invalidate` event, and then by nothing.

A stream that was started after an invalidate token reads the cause of that invalidation again, because it
starts at the same cluster time. That event is not shown and does not end the stream; it proves that the token
is valid. Other events up to that cluster time are before the client's position, and do not end the stream
either.
"""

from typing import Final

from tailrace.events.change_event import ChangeEvent, make_kind
from tailrace.events.event_token import resume_token
from tailrace.events.scope import ScopeKind
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.stage import Batch

INVALIDATING: Final = {
    ScopeKind.COLLECTION: frozenset({"drop", "rename", "dropDatabase"}),
    ScopeKind.DATABASE: frozenset({"dropDatabase"}),
    ScopeKind.CLUSTER: frozenset[str](),
}
_INVALIDATE: Final = make_kind("invalidate", "", None, None, shows_ns=False)


def invalidate_event(cause: ChangeEvent) -> ChangeEvent:
    """Return the event that ends a stream."""
    return ChangeEvent(cause.entry, _INVALIDATE, cause=cause, shard=cause.shard)


class CheckInvalidate:
    """Ends the batch after an invalidating event."""

    def __init__(self, kind: ScopeKind, resume: ResumePoint) -> None:
        self._types = INVALIDATING[kind]
        self._resume = resume
        token = resume.token
        self._passed = token if token is not None and token.from_invalidate else None

    def __call__(self, batch: Batch[ChangeEvent]) -> Batch[ChangeEvent]:
        types = self._types
        if not any(event.kind.operation_type in types for event in batch.items):
            return batch
        kept: list[ChangeEvent] = []
        for event in batch.items:
            if event.kind.operation_type not in types:
                kept.append(event)
            elif self._passed is None or event.entry.ts > self._passed.cluster_time:
                last = invalidate_event(event)
                return Batch([*kept, event, last], closed_by=last)
            elif resume_token(invalidate_event(event), self._passed.version) == self._passed:
                self._resume.found = True
            else:
                kept.append(event)
        return batch.having(kept)
