"""`renameCollection`."""

from typing import Any

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.arguments import Arguments
from tailrace.server.command import Command
from tailrace.server.context import Context
from tailrace.server.ddl import collection_uuid, write
from tailrace.server.generic_arguments import check_database_name
from tailrace.store.ddl.lookup import check_uuid
from tailrace.store.ddl.names import check_collection_name
from tailrace.store.ddl.rename import rename_collection
from tailrace.store.write_unit import WriteUnit


async def run(context: Context) -> dict[str, Any]:
    """Give a collection another name, within its database or in another."""
    arguments = context.arguments()
    source = _namespace(arguments, context.name)
    target = _namespace(arguments, "to")
    drop_target = _drop_target(arguments)
    stay_temp = arguments.boolean("stayTemp", False)
    expected = collection_uuid(arguments)
    arguments.finish()

    def work(unit: WriteUnit) -> None:
        check_uuid(unit.catalog, *source, expected)
        rename_collection(unit, source, target, drop_target=drop_target, stay_temp=stay_temp)

    await write(context, work)
    return {}


def _namespace(arguments: Arguments, field: str) -> tuple[str, str]:
    ns = arguments.text(field)
    database, dot, name = ns.partition(".")
    if not dot:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{ns}'")
    check_database_name(database)
    check_collection_name(database, name)
    return database, name


def _drop_target(arguments: Arguments) -> bool | bytes:
    value = arguments.value("dropTarget", None)
    if isinstance(value, Binary) and value.subtype == 4:
        return bytes(value)
    return arguments.boolean("dropTarget", False)


COMMAND = Command(
    "renameCollection", run, help="Gives a collection another name.", admin_only=True, is_write=True
)
