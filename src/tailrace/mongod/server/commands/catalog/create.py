"""`create`: create a collection or a view."""

from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import images_option
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change, run_write
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.views import create_view
from tailrace.mongod.store.write_unit import WriteUnit

_WITH_VIEW: Final = frozenset({"collation"})


async def run(context: MemberContext) -> dict[str, Any]:

    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    options = _options(arguments)
    view_on = arguments.text("viewOn", None)
    pipeline = arguments.array("pipeline", None)
    arguments.finish()
    if view_on is None:
        if pipeline is not None:
            raise CommandError(ErrorCode.InvalidOptions, "'pipeline' cannot be specified without 'viewOn'")
        await run_write(context, lambda unit: create_collection(unit, database, name, options))
        return {}
    if context.transaction is not None:
        raise CommandError(
            ErrorCode.OperationNotSupportedInTransaction,
            f"Cannot create a view in a multi-document transaction: {database}.{name}",
        )
    for option, value in options.items():
        if value is not None and option not in _WITH_VIEW:
            raise CommandError(ErrorCode.InvalidOptions, f"'{option}' is not allowed with 'viewOn'")

    def make_view(unit: WriteUnit) -> None:
        create_view(unit, database, name, view_on, pipeline or [], options["collation"])

    await run_catalog_change(context, make_view)
    return {}


def _options(arguments: Arguments) -> dict[str, Any]:
    """All options of a collection, with checked types; None for those that are not given."""
    options: dict[str, Any] = {
        "capped": arguments.boolean("capped", None),
        "size": arguments.integer("size", None),
        "max": arguments.integer("max", None),
        "autoIndexId": arguments.boolean("autoIndexId", None),
        "temp": arguments.boolean("temp", None),
        "changeStreamPreAndPostImages": images_option(arguments),
        "storageEngine": arguments.document("storageEngine", None),
        "indexOptionDefaults": arguments.document("indexOptionDefaults", None),
        "validator": arguments.document("validator", None),
        "validationLevel": arguments.text("validationLevel", None),
        "validationAction": arguments.text("validationAction", None),
        "collation": arguments.document("collation", None),
        "clusteredIndex": _clustered_index(arguments),
        "expireAfterSeconds": arguments.integer("expireAfterSeconds", None),
        "timeseries": arguments.document("timeseries", None),
        "encryptedFields": arguments.document("encryptedFields", None),
        "idIndex": arguments.document("idIndex", None),
    }
    return options


def _clustered_index(arguments: Arguments) -> Any:
    value = arguments.value("clusteredIndex", None)
    if value is not None and not isinstance(value, bool | dict):
        raise arguments.wrong_type("clusteredIndex", value, "[bool, object]")
    return value


COMMAND = Command(
    "create",
    run,
    help="Create a collection or a view.",
    is_write=True,
    in_transaction=True,
)
