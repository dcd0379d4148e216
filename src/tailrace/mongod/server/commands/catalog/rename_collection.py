"""`renameCollection`: rename a collection, within its database or to another."""

from typing import Any

from bson import Binary

from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid, namespace_argument
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.ddl.rename import rename_collection
from tailrace.mongod.store.write_unit import WriteUnit


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    source = namespace_argument(arguments, context.name)
    target = namespace_argument(arguments, "to")
    drop_target = read_drop_target(arguments)
    stay_temp = arguments.boolean("stayTemp", False)
    expected = collection_uuid(arguments)
    arguments.finish()

    def work(unit: WriteUnit) -> None:
        check_uuid(unit.catalog, *source, expected)
        rename_collection(unit, source, target, drop_target=drop_target, stay_temp=stay_temp)

    await run_catalog_change(context, work)
    return {}


def read_drop_target(arguments: Arguments) -> bool | bytes:
    """`dropTarget`: whether an existing collection may be dropped, or its UUID."""
    value = arguments.value("dropTarget", None)
    if isinstance(value, Binary) and value.subtype == 4:
        return bytes(value)
    return arguments.boolean("dropTarget", False)


COMMAND = Command("renameCollection", run, help="Rename a collection.", admin_only=True, is_write=True)
