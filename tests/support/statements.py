"""Make document writes: inserts, updates, replacements and deletes, with the operations that log them.

A statement is made for a document as the writer sees it, which inside a transaction includes the
transaction's own writes. To make one changes nothing; `Deployment` applies it when it becomes visible.
"""

import random
from typing import Any, Final

from bson import DatetimeMS, Regex

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.bson.values import Undefined
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import Operation
from tailrace.events.update_diff import compute_diff
from tailrace.mongod.language.update import compile_update
from tests.support.deployment import Collection, Statement
from tests.support.documents import DocumentMaker
from tests.support.history import identity
from tests.support.modifiers import ModifierMaker
from tests.support.oplog_writer import OplogWriter

_DELTA_VERSION: Final = rawbson.element(rawbson.INT32, b"$v", rawbson.INT32_LE.pack(2))
_ATTEMPTS: Final = 20


class StatementMaker:
    def __init__(self, rng: random.Random, oplog: OplogWriter) -> None:
        self._rng = rng
        self._oplog = oplog
        self.documents = DocumentMaker(rng)
        self._modifiers = ModifierMaker(rng, self.documents)

    def insert(self, collection: Collection, *, migrated: bool = False) -> Statement | None:
        """An insert under an `_id` that is not in use, not even in an open transaction."""
        for _ in range(_ATTEMPTS):
            document = self.documents.stored(self.documents.identifier())
            for path in collection.shard_key:
                self._set_shard_key(document, path)
            raw = bsondocs.encode(document)
            key = identity(raw)
            if not collection.is_taken(key):
                return self.inserted(collection, raw, migrated=migrated)
        return None

    def inserted(self, collection: Collection, raw: bytes, *, migrated: bool = False) -> Statement:
        """The insert of a given document."""
        document_key = collection.document_key(raw)
        operation = self._operation("i", collection, raw, document_key, migrated)
        return Statement(collection, operation, identity(raw), None, raw, migrated)

    def delete(self, collection: Collection, raw: bytes, *, migrated: bool = False) -> Statement:
        operation = self._operation("d", collection, collection.document_key(raw), None, migrated)
        return Statement(collection, operation, identity(raw), raw, None, migrated)

    def replace(self, collection: Collection, raw: bytes) -> Statement | None:
        """A replacement; None if the new document could not be stored."""
        old = bsondocs.decode(raw)
        document = self.documents.stored(old["_id"])
        for path in collection.shard_key:
            self._set_shard_key(document, path)
        return self._replaced(collection, raw, bsondocs.encode(document))

    def replaced(self, collection: Collection, raw: bytes, after: bytes) -> Statement:
        """The replacement of a document by a given one."""
        operation = self._operation("u", collection, after, collection.document_key(raw), migrated=False)
        return Statement(collection, operation, identity(raw), raw, after)

    def _replaced(self, collection: Collection, raw: bytes, after: bytes) -> Statement | None:
        return None if raw == after else self.replaced(collection, raw, after)

    def update(self, collection: Collection, raw: bytes) -> Statement | None:
        """An update by modifiers or by a pipeline; None if it changed nothing or was refused."""
        return self._modify(collection, raw) if self._rng.random() < 0.5 else self._compute(collection, raw)

    def modified(self, collection: Collection, raw: bytes, update: dict[str, Any]) -> Statement | None:
        """The update of a document by given modifiers; None if it changes nothing."""
        result = compile_update(update).apply(
            bsondocs.decode(raw),
            now=DatetimeMS(self._oplog.wall),
            cluster_time=to_timestamp(self._oplog.now),
        )
        if not result.modified or result.diff is None or not keeps_shard_key(collection, result.document):
            return None
        return self.delta(collection, raw, bsondocs.encode(result.diff), bsondocs.encode(result.document))

    def _modify(self, collection: Collection, raw: bytes) -> Statement | None:
        try:
            return self.modified(collection, raw, self._modifiers.make(bsondocs.decode(raw)))
        except CommandError:
            return None

    def _compute(self, collection: Collection, raw: bytes) -> Statement | None:
        changed = self.documents.changed(bsondocs.decode(raw))
        after = bsondocs.encode(changed)
        if after == raw or not keeps_shard_key(collection, changed):
            return None
        diff = compute_diff(raw, after)
        if diff is None:
            return self._replaced(collection, raw, after)
        return self.delta(collection, raw, diff, after)

    def delta(self, collection: Collection, raw: bytes, diff: bytes, after: bytes) -> Statement:
        """The update of a document that is logged as a given diff."""
        o = rawbson.document(_DELTA_VERSION, rawbson.element(rawbson.DOCUMENT, b"diff", diff))
        operation = self._operation("u", collection, o, collection.document_key(raw), migrated=False)
        return Statement(collection, operation, identity(raw), raw, after)

    def _operation(
        self, op: str, collection: Collection, o: bytes, o2: bytes | None, migrated: bool
    ) -> Operation:
        return Operation(
            op, collection.namespace, o, collection.uuid, o2,
            is_timeseries=collection.is_timeseries, from_migrate=migrated or None,
        )  # fmt: skip

    def _set_shard_key(self, document: dict[str, Any], path: str) -> None:
        """Set a shard-key field to a random value, or remove it, which is allowed."""
        head, _, rest = path.partition(".")
        if head == "_id":
            return
        document.pop(head, None)
        if self._rng.random() < 0.9:
            value = self.documents.key_scalar()
            document[head] = {rest: value} if rest else value


def keeps_shard_key(collection: Collection, document: dict[str, Any]) -> bool:
    """Whether every shard-key field has an allowed value."""
    for path in collection.shard_key:
        value: Any = document
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
            if isinstance(value, list | Regex | Undefined):
                return False
    return True
