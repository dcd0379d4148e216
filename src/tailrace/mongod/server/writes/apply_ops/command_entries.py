"""Apply command entries: run the command that an entry logs, in its database.

What an entry wants may have happened already: a collection that exists is not created again, and one that
does not exist is not dropped or renamed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.apply_ops.operations import uuid_of
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.collection_options import collection_options
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.write_unit import WriteUnit

_HARMLESS: Final[Mapping[str, frozenset[int]]] = {
    "create": frozenset({ErrorCode.NamespaceExists}),
    "drop": frozenset({ErrorCode.NamespaceNotFound}),
    "collMod": frozenset({ErrorCode.NamespaceNotFound}),
    "renameCollection": frozenset({ErrorCode.NamespaceNotFound}),
    "dropIndexes": frozenset({ErrorCode.NamespaceNotFound, ErrorCode.IndexNotFound}),
    "dropDatabase": frozenset({ErrorCode.NamespaceNotFound}),
}
"""The commands that can be applied, and their errors that mean that there is nothing to do."""
_SAME: Final = {"deleteIndexes": "dropIndexes", "deleteIndex": "dropIndexes"}
_RANDOM_UUID_VERSION: Final = 4


async def apply_command(context: MemberContext, operation: Mapping[str, Any]) -> None:
    o = dict(operation["o"])
    logged_name = next(iter(o))
    name = _SAME.get(logged_name, logged_name)
    uuid = uuid_of(operation)
    if name == "dbCheck" or (name == "dropIndexes" and uuid is None):
        return  # a real server, too, drops only indexes of a collection that is named by its UUID
    if name not in _HARMLESS:
        reason = f"The {logged_name} operation is not supported in applyOps mode"
        raise CommandError(ErrorCode.CommandNotSupported, reason)
    database = operation["ns"].partition(".")[0]
    try:
        if name == "create" and (uuid is not None or "viewOn" not in o):
            await _create(context, database, o, uuid or uuid4().bytes)
            return
        if uuid is not None:
            _name_by_uuid(context, name, o, uuid)
        command = {name: o.pop(logged_name), **o}
        await _run(context, name, "admin" if name == "renameCollection" else database, command)
    except CommandError as error:
        if error.code not in _HARMLESS[name]:
            raise


async def _run(context: MemberContext, name: str, database: str, command: dict[str, Any]) -> None:
    entry = context.node.commands[name]
    request = replace(
        context.request, database=database, command=encode({**command, "$db": database}), decoded=None
    )
    inner = type(context)(context.node, context.client, request, name, entry, {**command, "$db": database})
    inner.deadline = context.deadline
    await entry.run(inner)


def _name_by_uuid(context: MemberContext, name: str, o: dict[str, Any], uuid: bytes) -> None:
    """Let the command name the collection by its present name."""
    collection = context.node.store.catalog.by_uuid(uuid)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"there is no collection with the UUID {uuid.hex()}")
    if name in o:
        o[name] = collection.ns if name == "renameCollection" else collection.name


async def _create(context: MemberContext, database: str, o: dict[str, Any], uuid: bytes) -> None:
    """Create a collection with a UUID; one that has the UUID already gets the name instead."""
    if uuid[6] >> 4 != _RANDOM_UUID_VERSION:
        raise CommandError(ErrorCode.InvalidUUID, f"Invalid UUID in applyOps create command: {uuid.hex()}")
    name = o.pop("create")
    existing = context.node.store.catalog.by_uuid(uuid)
    if existing is not None:
        if existing.ns != f"{database}.{name}":
            renaming = {"renameCollection": existing.ns, "to": f"{database}.{name}", "stayTemp": True}
            await _run(context, "renameCollection", "admin", renaming)
        return

    def work(unit: WriteUnit) -> Collection:
        check_new_collection(unit.catalog, database, name)
        if unit.catalog.collection(f"{database}.{name}") is not None:
            raise CommandError(ErrorCode.NamespaceExists, f"Collection {database}.{name} already exists.")
        options = collection_options(database, name, o, unit.rules)
        return unit.create_collection(database, name, options, uuid=uuid, logs_id_index="idIndex" in o)

    await run_catalog_change(context, work)
