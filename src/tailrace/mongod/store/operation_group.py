"""Operations that share an oplog entry: the inserts of a batch, the deletes of a statement.

A group holds operations of one kind on one collection as the bytes they will have in the entry. The bytes
that all of them begin with are built once, because a batch may have a thousand operations.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.entry_bytes import Operation, operations_array
from tailrace.events.layout.entry import O2_LEAD, beginning
from tailrace.mongod.store.catalog import Collection

MAX_GROUP: Final = 500
"""Operations in one vectored entry; for inserts the default of `internalInsertMaxBatchSize`."""
MAX_GROUP_BYTES: Final = rawbson.MAX_USER_SIZE - 64 * 1024
_MOST_INSERTED_BYTES: Final = 256 << 10
"""Inserts end with the document that reaches this size, as the batches of a server do"""
_OVERHEAD: Final = 256
"""Upper bound of an operation's bytes besides its document"""
_FROM_MIGRATE: Final = b"\x08fromMigrate\0\x01"
_STATEMENT: Final = b"\x10stmtId\0"
_pack: Final = rawbson.INT32_LE.pack


class OperationGroup:
    """Inserts or deletes that are logged together."""

    __slots__ = (
        "_bytes",
        "_document_bytes",
        "_elements",
        "_from_migrate",
        "_marks",
        "_pre_images",
        "_start",
        "collection",
        "left",
        "op",
    )

    def __init__(self, op: str, collection: Collection, most: int, *, from_migrate: bool = False) -> None:
        """``most`` is how many operations it can have."""
        self.op = op
        self.collection = collection
        self._start = beginning(op, collection.ns, collection.uuid)
        self._from_migrate = from_migrate
        self._marks = _FROM_MIGRATE if from_migrate else b""
        self._elements: list[bytes] = []
        self._pre_images: list[bytes] = []
        self._bytes = 0
        self._document_bytes = 0
        self.left = most
        """How many operations can be added"""

    def can_add(self, op: str, collection: Collection, size: int) -> bool:
        """Whether an operation with a document of that size may be added to a group that is not full."""
        return (
            self.op == op
            and self.collection is collection
            and self._bytes + size + _OVERHEAD <= MAX_GROUP_BYTES
        )

    def add_insert(self, document: bytes, key: bytes, statement_id: int | None) -> bool:
        """Add an insert; returns whether the group has to be logged before the next operation."""
        if statement_id is None:
            self._elements.append(b"%b%b%b%b%b" % (self._start, document, O2_LEAD, key, self._marks))
        else:
            self._elements.append(
                b"%b%b%b%b%b%b%b"
                % (self._start, document, O2_LEAD, key, self._marks, _STATEMENT, _pack(statement_id))
            )
        size = len(document)
        self._bytes += size + _OVERHEAD
        self._document_bytes += size
        self.left -= 1
        return not self.left or self._document_bytes >= _MOST_INSERTED_BYTES

    def add_delete(self, key: bytes, statement_id: int | None, pre_image: bytes | None) -> bool:
        """Add the delete of the document with this key; returns whether the group has to be logged then."""
        statement = b"" if statement_id is None else _STATEMENT + _pack(statement_id)
        self._elements.append(b"%b%b%b%b" % (self._start, key, self._marks, statement))
        self._bytes += len(key) + _OVERHEAD
        if pre_image is not None:
            self._pre_images.append(pre_image)
            self._bytes += len(pre_image)
        self.left -= 1
        return not self.left

    def __len__(self) -> int:
        return len(self._elements)

    @property
    def is_vectored(self) -> bool:
        """Whether there are several operations, which are then logged as the elements of an `applyOps`."""
        return len(self._elements) > 1

    def elements(self) -> bytes:
        """The fields of the entry between those of the session and those of the time."""
        if not self.is_vectored:
            return self._elements[0]
        # Batched deletes are listed in reverse of the order they happened.
        operations = self._elements[::-1] if self.op == "d" else self._elements
        array = rawbson.element(rawbson.ARRAY, b"applyOps", operations_array(operations))
        from_migrate = True if self._from_migrate else None
        return Operation("c", "admin.$cmd", rawbson.document(array), from_migrate=from_migrate).elements()

    def pre_images(self) -> list[bytes]:
        """The documents before, in the order of the operations in the entry; empty if images are off."""
        return self._pre_images[::-1] if self.op == "d" else self._pre_images
