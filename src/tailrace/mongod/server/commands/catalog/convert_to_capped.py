"""`convertToCapped`: replace a collection by a capped one with its newest documents."""

from typing import Any, Final

from bson import Decimal128

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import OLD_COLLECTION
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.collection_options import is_true
from tailrace.mongod.store.ddl.rename import convert_to_capped

_NO_CODE: Final = 0
"""The error of this old command has none."""


async def run(context: MemberContext) -> dict[str, Any]:
    database, name = context.database, context.collection_name(wrong_type=ErrorCode.InvalidNamespace)
    arguments = context.arguments()
    # Other fields are ignored, whatever they are.
    size = arguments.value("size", None)
    if isinstance(size, bool) or not isinstance(size, int | float | Decimal128) or not is_true(size):
        raise CommandError(0, "invalid command spec")
    size = arguments.integer("size")
    await run_catalog_change(context, lambda unit: convert_to_capped(unit, database, name, size))
    return {}


_FIELDS = old_command({"convertToCapped": OLD_COLLECTION})

COMMAND = Command(
    "convertToCapped",
    run,
    needs=on_collection("convertToCapped"),
    help="Replace a collection by a capped one with its newest documents.",
    fields=_FIELDS,
    is_write=True,
)
