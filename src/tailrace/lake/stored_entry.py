"""An operation that was read from the history, in the form that stages know."""

from tailrace.bson import raw as rawbson
from tailrace.events.entry_bytes import Operation, entry_bytes
from tailrace.events.oplog_entry import OplogEntry, OpTime

UNKNOWN_TERM = -1
"""The history does not keep terms; nothing behind unwinding asks for one"""


class StoredEntry(OplogEntry):
    """An entry whose bytes are put together again when somebody asks for them, which hardly anybody does.

    They are those of the oplog as far as filters on entries can tell; the session of a retryable write and
    fields that no stage reads are left out.
    """

    __slots__ = ("_raw",)
    _raw: bytes

    @property
    def raw(self) -> bytes:
        """The entry, or the operation as it stands inside of an `applyOps`."""
        if not self._raw:
            extras, head = self.extras, self.head
            operation = Operation(
                head.op,
                head.ns,
                self.o,
                uuid=head.ui,
                o2=self.o2,
                is_timeseries=extras.is_timeseries,
                from_migrate=extras.from_migrate or None,
            )
            if extras.in_apply_ops:
                self._raw = rawbson.document(operation.elements())
            else:
                wall = rawbson.INT64_LE.unpack(self.wall)[0]
                self._raw = entry_bytes(operation, OpTime(self.ts, self.term), wall)
        return self._raw

    @raw.setter
    def raw(self, value: bytes) -> None:
        self._raw = value
