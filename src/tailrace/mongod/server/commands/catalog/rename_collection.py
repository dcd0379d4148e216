"""`renameCollection`: rename a collection, within its database or to another."""

from typing import Any

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.authorization import may
from tailrace.mongod.server.access.needs import Rights, right, text_of
from tailrace.mongod.server.access.privileges import Resource, namespace
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import (
    collection_uuid,
    namespace_argument,
    target_argument,
)
from tailrace.mongod.server.dispatch.context import Context, MemberContext
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import COLLECTION, FLAG, TEXT, UUID, Kind
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.ddl.rename import copy_name, log_failed_copy, rename_collection
from tailrace.mongod.store.write_unit import WriteUnit


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    source = namespace_argument(arguments, context.name)
    target = target_argument(arguments, "to")
    drop_target = read_drop_target(arguments)
    stay_temp = arguments.boolean("stayTemp", False, strict=True)
    expected = collection_uuid(arguments)
    arguments.finish()
    copy = copy_name()

    def work(unit: WriteUnit) -> None:
        check_uuid(unit.catalog, *source, expected)
        rename_collection(unit, source, target, drop_target=drop_target, stay_temp=stay_temp, copy=copy)

    try:
        await run_catalog_change(context, work)
    except CommandError as error:
        if error.code == ErrorCode.DuplicateKey:
            # A server does not copy in one transaction: its oplog has the copy, and that it was dropped.
            await run_catalog_change(context, lambda unit: log_failed_copy(unit, source, target[0], copy))
        raise
    return {}


def read_drop_target(arguments: Arguments) -> bool | bytes:
    """`dropTarget`: whether an existing collection may be dropped, or its UUID."""
    value = arguments.value("dropTarget", None)
    arguments.refuse_null("dropTarget", "[bool, binData]")
    if isinstance(value, Binary) and value.subtype == 4:
        return bytes(value)
    if isinstance(value, bytes):
        raise CommandError(ErrorCode.InvalidUUID, "uuid must be a 16-byte binary field with UUID (4) subtype")
    return arguments.boolean("dropTarget", False, strict=True)


_DROP_TARGET = Kind(
    lambda value: isinstance(value, bool | bytes), "[bool, binData]", null_code=ErrorCode.TypeMismatch
)


def _needs(context: MemberContext) -> Rights:
    """In a database a right to rename is enough, unless the new name would make the data readable."""
    source, target = (_resource(context.command.get(name)) for name in (context.name, "to"))
    drops = ("dropCollection",) if context.command.get("dropTarget") else ()
    if source.database == target.database:
        can_rename = may(
            context, right(source, "renameCollectionSameDB"), right(target, "renameCollectionSameDB", *drops)
        )
        if can_rename and (may(context, right(source, "find")) or not may(context, right(target, "find"))):
            return
    yield right(source, "find", "dropCollection")
    yield right(target, "insert", "createIndex", *drops)


def _resource(named: object) -> Resource:
    database, _, collection = text_of(named).partition(".")
    return namespace(database, collection)


def _check_name(context: Context) -> None:
    context.collection_name()  # refuses other types


_FIELDS = command(
    {
        "renameCollection": COLLECTION, "to": TEXT, "dropTarget": _DROP_TARGET, "stayTemp": FLAG,
        "collectionUUID": UUID,
    },
    required=("to",),
    late=True,
)  # fmt: skip

COMMAND = Command(
    "renameCollection",
    run,
    needs=_needs,
    help="Rename a collection.",
    fields=_FIELDS,
    check_first=_check_name,
    admin_only=True,
    is_write=True,
)
