"""Stage 2: one committed transaction or batch becomes its operations.

An `applyOps` entry holds operations; a large transaction is a chain of such entries linked backwards by
`prevOpTime`; a prepared one takes effect at its `commitTransaction`. The operations come out oldest entry
first, with the times of the entry that commits them. They are counted over the whole chain before any of
them is filtered out, because the count is part of the resume token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import in_words
from tailrace.events.commit_entry import COMMIT, commit_timestamp
from tailrace.events.entry_reader import EntryReader
from tailrace.events.oplog_entry import MALFORMED_ENTRY, Extras, OplogEntry, OpTime, parse_entry
from tailrace.events.stages.lookups import EntryLookup
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.visibility import Visibility, applied_by_user

CONTAINERS: Final = ("applyOps", COMMIT)
"""The commands whose entries hold operations, or commit those of earlier ones."""
_APPLIED_SEPARATELY: Final = 1
_OP: Final = b"\x02op\0"
"""What every operation begins with, unless it was made by hand."""
_CHANGES: Final = tuple(_OP + rawbson.framed(op) for op in (b"i", b"u", b"d"))
"""What a change of a document begins with"""
_LETTER: Final = 4 + len(_OP) + 4
_ALLOWED_COMMANDS: Final = frozenset({"create", "createIndexes"})
_SESSION_TYPES: Final = {
    b"lsid": rawbson.DOCUMENT,
    b"txnNumber": rawbson.INT64,
    b"prevOpTime": rawbson.DOCUMENT,
}


class UnwindTransaction:
    """Replaces applyOps and commitTransaction entries by their operations; passes all others."""

    def __init__(
        self, visible: Visibility, reader: EntryReader, find_entry: EntryLookup, *, marks_end: bool = False
    ) -> None:
        self._visible = visible
        self._reader = reader
        self._find_entry = find_entry
        self._marks_end = marks_end

    def __call__(self, batch: Batch[OplogEntry]) -> Batch[OplogEntry]:
        for entry in batch.items:
            if entry.head.op == "c":
                break
        else:
            return batch
        unwound: list[OplogEntry] = []
        try:
            for entry in batch.items:
                if entry.head.op != "c":
                    unwound.append(entry)
                    continue
                command = entry.command
                if command in CONTAINERS:
                    # Not `extend`: what came before an error inside a transaction is still delivered.
                    for operation in self._operations(entry, command):
                        unwound.append(operation)  # noqa: PERF402
                elif command == "abortTransaction":
                    raise CommandError(
                        5543802, "an abortTransaction entry reached the unwinding of transactions"
                    )
                else:
                    unwound.append(entry)
        except CommandError as error:
            return batch.having(unwound, error, entry.ts)
        return batch.having(unwound)

    def _operations(self, entry: OplogEntry, command: str) -> Iterator[OplogEntry]:
        outer = entry.extras
        if outer.lsid is None or outer.txn_number is None or outer.previous is None:
            _check_session(entry.raw)
        is_batch = outer.multi_op_type != 0
        shared = Extras(
            lsid=None if is_batch else outer.lsid,
            txn_number=None if is_batch else outer.txn_number,
            in_apply_ops=True,
            commit_timestamp=commit_timestamp(entry.o) if command == COMMIT else None,
            outer_from_migrate=outer.from_migrate,
            outer_is_timeseries=outer.is_timeseries,
            applied_by_user=command == "applyOps" and applied_by_user(entry),
        )
        is_transaction = command == "applyOps" and shared.lsid is not None and shared.txn_number is not None
        marks_end = self._marks_end and is_transaction
        read, may_see = self._reader.read_inner, self._visible.may_see_inner
        count = 0
        namespaces: dict[str, None] = {}
        for part in self._chain(entry, command):
            extras = replace(shared, apply_ops_ts=part.ts, operations_before=count)
            o = part.o
            starts_with = o.startswith
            found = None if marks_end else self._visible.places(o)
            places = None if found is None else iter(found)
            place = 0
            for index, (start, end) in enumerate(_inner_operations(o)):
                count += 1
                if not marks_end and starts_with(_CHANGES, start + 4):
                    if places is not None:
                        while place < start:
                            place = next(places, len(o))
                        if place >= end:
                            continue
                    if not may_see(o[start:end], o[start + _LETTER]):
                        continue
                operation = read(o[start:end], entry, extras, index)
                if operation.head.op == "n":
                    raise CommandError(5543809, "a no-op is inside an applyOps entry")
                if marks_end:
                    namespaces[_affected_namespace(operation)] = None
                if self._visible.sees_inner(operation):
                    yield operation
        if marks_end and self._visible.sees_any(list(namespaces)):
            yield self._end_of_transaction(entry, shared, count, sorted(namespaces))

    def _chain(self, entry: OplogEntry, command: str) -> Iterator[OplogEntry]:
        """The entries that hold the operations, oldest first; only positions are stored meanwhile."""
        positions: list[OpTime] = []
        link = entry.extras.previous if entry.extras.multi_op_type != _APPLIED_SEPARATELY else None
        while link is not None and not link.is_null:
            if link.ts >= (positions[-1] if positions else entry).ts:
                raise CommandError(MALFORMED_ENTRY, "an entry of a transaction points to a later one")
            positions.append(link)
            link = self._find(link).extras.previous
        for position in reversed(positions):
            yield self._find(position)
        if command == "applyOps":
            yield entry

    def _find(self, position: OpTime) -> OplogEntry:
        raw = self._find_entry(position.ts, position.term)
        if raw is None:
            raise CommandError(
                ErrorCode.ChangeStreamHistoryLost,
                f"an earlier part of a transaction, at {in_words(position.ts)}, is no longer in the oplog",
            )
        return parse_entry(raw)

    def _end_of_transaction(
        self, entry: OplogEntry, shared: Extras, count: int, namespaces: list[str]
    ) -> OplogEntry:
        payload = end_payload(namespaces, shared.lsid or rawbson.EMPTY, shared.txn_number or 0)
        after_all = replace(shared, operations_before=count)
        return self._reader.synthetic(END_NAMESPACE, payload, entry, after_all)


END_NAMESPACE: Final = "admin.$cmd"


def end_payload(namespaces: Sequence[str], lsid: bytes, txn_number: int) -> bytes:
    """Return the `o2` of the no-op that stands for the end of a transaction."""
    return rawbson.document(
        rawbson.element(rawbson.ARRAY, b"endOfTransaction", names_array(namespaces)),
        rawbson.element(rawbson.DOCUMENT, b"lsid", lsid),
        rawbson.element(rawbson.INT64, b"txnNumber", rawbson.INT64_LE.pack(txn_number)),
    )


def names_array(namespaces: Sequence[str]) -> bytes:
    """Return the array of the namespaces that a transaction has changed."""
    return rawbson.document(
        *(rawbson.string(b"%d" % index, ns.encode()) for index, ns in enumerate(namespaces))
    )


def holds_operations(entry: OplogEntry) -> bool:
    """Return whether an entry is a transaction or a batch."""
    return entry.head.op == "c" and entry.command in CONTAINERS


def _check_session(raw: bytes) -> None:
    """Raise an error for fields of a wrong type, which reading an entry leaves out."""
    for kind, name, _, _ in rawbson.elements(raw):
        if _SESSION_TYPES.get(name, kind) != kind:
            raise CommandError(40532, f"the field {name.decode()} of a transaction's entry has a wrong type")


def _inner_operations(o: bytes) -> Iterator[tuple[int, int]]:
    """Where the operations of an `applyOps` are."""
    operations = rawbson.find(o, b"applyOps")
    if operations is None or operations[0] != rawbson.ARRAY:
        raise CommandError(40532, "an applyOps entry has no array of operations")
    for place in rawbson.subdocument_places(o, operations[2]):
        if place is None:
            raise CommandError(40532, "an operation inside an applyOps entry is not a document")
        if not o.startswith(_OP, place[0] + 4):
            op = rawbson.find(o[place[0] : place[1]], b"op")
            if op is None or op[0] != rawbson.STRING:
                raise CommandError(5543808, "an operation inside an applyOps entry has no `op` string")
        yield place


def _affected_namespace(operation: OplogEntry) -> str:
    if operation.head.op != "c":
        return operation.head.ns
    if operation.command not in _ALLOWED_COMMANDS:
        raise CommandError(7694300, f"a transaction contains the command {operation.command}")
    target = operation.command_target
    return operation.head.ns if target is None else f"{operation.head.database}.{target}"
