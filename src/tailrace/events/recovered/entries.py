"""The oplog entry of some events: everything downstream reads entries, and makes the same events of them.

The events of one entry have the same cluster time. A document change or a command becomes an entry of its
own, several operations an `applyOps`. The entry is not the one of the source: it lacks what no event shows,
such as the session of a retryable write. But it leads to the same events. That is checked for each entry: the
recorded stream is made of it again, and has to be the same, byte for byte.
"""

from collections.abc import Sequence
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError
from tailrace.events.change_event import CHANGES
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_bytes import NULL_OPTIME, Operation, apply_ops, entry_bytes, session_elements
from tailrace.events.entry_mark import EntryMark, digest_of
from tailrace.events.event_token import token_document
from tailrace.events.oplog_entry import OpTime
from tailrace.events.recovered.commands import command_of
from tailrace.events.recovered.shown_event import ShownEvent
from tailrace.events.recovered.update import diff_of_event
from tailrace.events.resume_token import CURRENT_VERSION
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import SPLIT, StreamRelease
from tailrace.events.update_diff import delta_of

TERM: Final = -1
"""The term of all recovered entries: no event shows that of its entry."""
_UNSEEN: Final = Operation("d", "local.unseen", rawbson.EMPTY, bytes(16))
"""In the place of an operation of a transaction that the recorded stream does not show."""

RECORDED: Final[dict[str, Any]] = {
    "allChangesForCluster": True,
    "showExpandedEvents": True,
    "fullDocument": "whenAvailable",
    "fullDocumentBeforeChange": "whenAvailable",
}
"""The stream that is recorded of a source."""


def recorded_pipeline(release: StreamRelease) -> list[dict[str, Any]]:
    """Return the stages after `$changeStream` in the recorded stream."""
    return [{SPLIT: {}}] if release.splits_large_events else []


class UnrecoverableEventError(CommandError):
    """No entry was found that leads to the events of a cluster time."""

    def __init__(self, events: Sequence[ShownEvent], reason: str) -> None:
        first = events[0]
        self.time = first.time
        super().__init__(
            ErrorCode.OperationFailed,
            f"the event of type {first.operation_type} of {first.ns} at {in_words(first.time)} cannot be "
            f"recorded exactly: {reason}; read the oplog instead, with --via oplog",
        )


class EntryRecovery:
    """Events of the recorded stream to oplog entries."""

    def __init__(self, release: StreamRelease) -> None:
        plan = Plan.open(Scope.cluster(), RECORDED, recorded_pipeline(release), release=release)
        self._shared = DeploymentPart("", Lookups())
        self._view = plan.view_part({"": Lookups()})

    def entry(self, events: Sequence[ShownEvent]) -> bytes:
        """Return the entry of all events of one cluster time; raises `UnrecoverableEventError`."""
        try:
            if len(events) == 1 and events[0].lsid is None:
                entry = _plain_entry(events[0])
                if self._leads_to(events, entry):
                    return entry
            entry = _batch_entry(events)
            if self._leads_to(events, entry):
                return entry
        except (BsonError, CommandError) as error:
            raise UnrecoverableEventError(events, str(error)) from None
        raise UnrecoverableEventError(events, "what is made of it again is not the same")

    def _leads_to(self, events: Sequence[ShownEvent], entry: bytes) -> bool:
        """Whether the recorded stream shows an entry as these events."""
        batch = self._view(self._shared.events(self._shared.read(entry)))
        if batch.failure is not None:
            raise batch.failure
        return [row.raw for row in batch.items] == [piece for event in events for piece in event.pieces]


def mark_of(entry: bytes) -> EntryMark:
    """Return what identifies a recovered entry: its time, and the tokens of its events.

    Its bytes do not: an image that it has may be gone when it is recovered again.
    """
    part = DeploymentPart("", Lookups())
    read = part.read(entry)
    tokens = b"".join(token_document(event, CURRENT_VERSION) for event in part.events(read).items)
    return EntryMark(read.ts, TERM, digest_of(tokens))


def noop_entry(time: int) -> bytes:
    """Return an entry that leads to no event, for a time that the source has reached."""
    return entry_bytes(Operation("n", "", rawbson.EMPTY), OpTime(time, TERM), (time >> 32) * 1000)


def _plain_entry(event: ShownEvent) -> bytes:
    return entry_bytes(_operation(event), OpTime(event.time, TERM), event.wall)


def _batch_entry(events: Sequence[ShownEvent]) -> bytes:
    """The entry of a transaction, or of operations that were logged together."""
    first = events[0]
    operations: list[Operation] = []
    for event in events:
        operations += [_UNSEEN] * (event.token.txn_op_index - len(operations))
        operations.append(_operation(event))
    at, lsid = OpTime(first.time, TERM), first.lsid
    if lsid is None:
        return entry_bytes(apply_ops(operations), at, first.wall)
    session = session_elements(lsid, first.txn_number)
    return entry_bytes(apply_ops(operations), at, first.wall, session=session, previous=NULL_OPTIME)


def _operation(event: ShownEvent) -> Operation:
    kind = event.operation_type
    if kind not in CHANGES:
        return command_of(event)
    key = event.document(b"documentKey")
    pre_image = event.document_or_none(b"fullDocumentBeforeChange")
    if kind == "insert":
        return Operation("i", event.ns, event.document(b"fullDocument"), event.uuid, key)
    if kind == "delete":
        return Operation("d", event.ns, key, event.uuid, pre_image=pre_image)
    o = delta_of(diff_of_event(event)) if kind == "update" else event.document(b"fullDocument")
    return Operation("u", event.ns, o, event.uuid, key, pre_image=pre_image)
