"""Apply inserts, updates and deletes: each with its own oplog entry, or without any.

A document that exists is replaced by an insert, and one that does not exist is inserted by an update, so that
operations can be applied again.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import Binary

from tailrace.bson.documents import decode, encode, encode_value
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.update_diff import apply_diff, delta_of
from tailrace.mongod.language.update import compile_update
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.apply_ops.operations import uuid_of
from tailrace.mongod.server.writes.command_time import CommandTime
from tailrace.mongod.server.writes.new_document import storable
from tailrace.mongod.server.writes.validation.validator import Validator
from tailrace.mongod.store.capped import excess, insert_capped
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.write_unit import WriteUnit

_ID_CHANGED: Final = 13596
_UNKNOWN_VERSION: Final = 4772600


class MissingCollectionError(CommandError):
    """An insert or update of a collection that does not exist."""


class Changes:
    """Applies operations to documents in one unit."""

    def __init__(
        self,
        unit: WriteUnit,
        context: MemberContext,
        *,
        is_logged: bool,
        always_upsert: bool,
        bypasses_validation: bool,
    ) -> None:
        self._unit = unit
        self._context = context
        self._is_logged = is_logged
        self._always_upsert = always_upsert
        self._bypasses_validation = bypasses_validation
        self._time = CommandTime(unit)

    def apply(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Apply one operation; returns it as it is logged among others, with its collection's UUID."""
        collection = self._collection(operation)
        kind = operation["op"]
        if collection is None:
            if kind == "d":
                return dict(operation)
            reason = "cannot apply insert or update operation on a non-existent namespace "
            raise MissingCollectionError(ErrorCode.NamespaceNotFound, f"{reason}{operation['ns']}")
        logged = dict(operation)
        if kind == "i":
            self._insert(collection, operation)
        elif kind == "u":
            o = self._update(collection, operation)
            if self._context.node.release.stream.shows_applied_operations:
                logged["o"] = o
        else:
            self._delete(collection, operation)
        return logged if "ui" in logged else {**logged, "ui": Binary(collection.uuid, 4)}

    def _collection(self, operation: Mapping[str, Any]) -> Collection | None:
        ns, uuid, catalog = operation["ns"], uuid_of(operation), self._unit.catalog
        if uuid is not None:
            found = catalog.by_uuid(uuid)
            if found is None:
                reason = f"Failed to apply operation due to missing collection ({uuid.hex()})"
                raise CommandError(ErrorCode.NamespaceNotFound, reason)
        else:
            database, _, name = ns.partition(".")
            if not (database and name):
                raise CommandError(ErrorCode.InvalidNamespace, f"invalid ns: {ns}")
            found = catalog.collection(ns)
        if found is not None and found.is_internal:
            raise CommandError(
                ErrorCode.IllegalOperation, f"{ns} belongs to the server and cannot be changed"
            )
        return found

    # -- operations -----------------------------------------------------------------------------------

    def _insert(self, collection: Collection, operation: Mapping[str, Any]) -> None:
        document = operation["o"]
        found = self._found(collection, document, "insert")
        stored = storable(encode(document), self._unit.clock, fill_timestamps=False)
        self._check(collection, None, stored)
        if found is None:
            self._put_new(collection, stored)
        else:
            self._put_changed(collection, found, stored, stored)

    def _update(self, collection: Collection, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the change as it is logged: a diff, or a whole document."""
        o, key = operation["o"], operation.get("o2") or {}
        found = self._found(collection, key, "update")
        if found is None:
            if not (self._always_upsert or operation.get("b")):
                raise CommandError(ErrorCode.UpdateOperationFailed, f"Failed to apply update: {operation}")
            after, _ = self._updated(o, encode({"_id": key["_id"]}), is_new=True)
            after = storable(after, self._unit.clock, fill_timestamps=False)
            self._check(collection, None, after)
            self._put_new(collection, after)
            return decode(after)
        after, logged = self._updated(o, found[1], is_new=False)
        if after != found[1]:
            self._check(collection, found[1], after)
            self._put_changed(collection, found, after, logged)
        return decode(logged)

    def _delete(self, collection: Collection, operation: Mapping[str, Any]) -> None:
        found = self._found(collection, operation["o"], "delete")
        if found is None:
            return
        if self._is_logged:
            self._unit.delete(collection, *found)
        else:
            self._unit.put_removed(collection, *found)

    def _found(self, collection: Collection, key: Mapping[str, Any], what: str) -> Record | None:
        if "_id" not in key:
            raise CommandError(ErrorCode.NoSuchKey, f"Failed to apply {what} due to missing _id: {key}")
        return self._unit.find_id(collection, id_key(*encode_value(key["_id"]), collection.collation))

    def _updated(self, o: Mapping[str, Any], before: bytes, *, is_new: bool) -> tuple[bytes, bytes]:
        """The new document, and how the change is logged."""
        if "_id" in o:
            after = encode(o)
            if encode_value(o["_id"]) != encode_value(decode(before)["_id"]):
                raise CommandError(_ID_CHANGED, "in Collection::updateDocument _id mismatch")
            return after, after
        version = o.get("$v", 1)
        if version == 2 and isinstance(o.get("diff"), dict):
            diff = encode(o["diff"])
            return apply_diff(before, diff), delta_of(diff)
        if version != 1:
            reason = f"Expected _id field or $v field missing or $v:1/$v:2, but got: $v: {version}"
            raise CommandError(_UNKNOWN_VERSION, reason)
        modifiers = {name: value for name, value in o.items() if name != "$v"}
        unknown = next((name for name in modifiers if not name.startswith("$")), None)
        if unknown is not None or not modifiers:
            raise CommandError(ErrorCode.FailedToParse, f"Unknown modifier: {unknown}.")
        result = compile_update(modifiers).apply(
            decode(before), is_upsert_insert=is_new, now=self._time.now, cluster_time=self._time.cluster_time
        )
        return encode(result.document), delta_of(encode(result.diff or {}))

    # -- storing --------------------------------------------------------------------------------------

    def _check(self, collection: Collection, before: bytes | None, after: bytes) -> None:
        if self._bypasses_validation:
            return
        validator = Validator.of(collection, self._context.node.log, self._time.variables)
        if validator is None:
            return
        if before is None:
            validator.check_insert(after)
        else:
            validator.check_update(decode(before), decode(after))

    def _put_new(self, collection: Collection, document: bytes) -> None:
        unit = self._unit
        if self._is_logged:
            if collection.is_capped:
                insert_capped(unit, collection, document, None)
            else:
                unit.insert(collection, document)
                unit.end_group()
            return
        unit.put_new(collection, document)
        if collection.is_capped:
            for key, oldest in excess(unit, collection):
                unit.put_removed(collection, key, oldest)

    def _put_changed(self, collection: Collection, found: Record, after: bytes, logged: bytes) -> None:
        key, before = found
        if before == after:
            return
        if self._is_logged:
            self._unit.update(collection, key, before, after, logged)
        else:
            self._unit.put_changed(collection, key, before, after)
