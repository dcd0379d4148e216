"""`create`: create a collection or a view."""

from typing import Any, Final

from bson import Decimal128

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.authorization import may
from tailrace.mongod.server.access.needs import Rights, either, right, text_of
from tailrace.mongod.server.access.pipeline_needs import stages_need
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import images_option
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import LATER, Fields, command
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    ARRAY,
    COLLECTION,
    FLAG,
    GIVEN_OBJECT,
    GIVEN_TEXT,
    LOOSE_FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    Kind,
    array_of,
    at_least,
    struct,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.writes.unit import run_catalog_change, run_write
from tailrace.mongod.store.ddl.collection_options import (
    MAX_CAPPED_SIZE,
    NO_CAPPED_MAX,
    check_validation_modes,
    is_true,
)
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.views import create_view
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.query.collation import Collation

_NOT_WITH_VIEW: Final = frozenset({"idIndex", "timeseries", "clusteredIndex", "changeStreamPreAndPostImages"})
_CLUSTERED_TYPES: Final = "[bool, long, int, decimal, double, object]"
_AUTO_INDEX_ID: Final = "The autoIndexId option is deprecated and will be removed in a future release"


async def run(context: MemberContext) -> dict[str, Any]:
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    options = _options(arguments)
    view_on = arguments.text("viewOn", None)
    pipeline = arguments.documents("pipeline")
    arguments.integer("flags", None)
    arguments.finish()
    check_validation_modes(options)
    if options["collation"] is not None:
        Collation.fields(options["collation"])
    if arguments.has("temp"):
        raise CommandError(ErrorCode.InvalidOptions, "the 'temp' field is an invalid option")
    if view_on is None:
        if pipeline is not None:
            raise CommandError(ErrorCode.InvalidOptions, "'pipeline' cannot be specified without 'viewOn'")
        await run_write(context, lambda unit: create_collection(unit, database, name, options))
        return {} if options["autoIndexId"] is None else {"note": _AUTO_INDEX_ID}
    if context.transaction is not None:
        raise CommandError(
            ErrorCode.OperationNotSupportedInTransaction,
            f"Cannot create a view in a multi-document transaction: {database}.{name}",
        )
    for option, value in options.items():
        if value is not None and option in _NOT_WITH_VIEW:
            raise CommandError(ErrorCode.InvalidOptions, f"'{option}' is not allowed with 'viewOn'")

    def make_view(unit: WriteUnit) -> CommandError | None:
        return create_view(unit, database, name, view_on, pipeline or [], options["collation"])

    failure = await run_catalog_change(context, make_view)
    if failure is not None:
        raise failure
    return {}


def _options(arguments: Arguments) -> dict[str, Any]:
    """All options of a collection, with checked types; None for those that are not given."""
    options: dict[str, Any] = {
        "capped": arguments.boolean("capped", None),
        "size": arguments.integer("size", None, minimum=1, maximum=MAX_CAPPED_SIZE),
        "max": arguments.integer("max", None, maximum=NO_CAPPED_MAX),
        "autoIndexId": arguments.boolean("autoIndexId", None),
        "temp": arguments.boolean("temp", None),
        "recordPreImages": arguments.boolean("recordPreImages", None),
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
    arguments.refuse_null("clusteredIndex", _CLUSTERED_TYPES)
    if isinstance(value, int | float | Decimal128):
        return is_true(value)
    if value is not None and not isinstance(value, dict):
        raise arguments.wrong_type("clusteredIndex", value, _CLUSTERED_TYPES)
    return value


_IMAGES = Fields({"enabled": FLAG}, required=("enabled",))
_ID_INDEX: Final = Fields({"key": GIVEN_OBJECT, "name": GIVEN_TEXT}, is_open=True)
_TIME_SERIES: Final = Fields({"timeField": TEXT, "metaField": TEXT, "granularity": TEXT}, is_open=True)
_CLUSTERED_INDEX: Final = Fields({"key": OBJECT, "name": TEXT, "unique": LOOSE_FLAG}, is_open=True)


class _ClusteredIndex(Kind):
    """A flag, or the description of the index."""

    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:
        if isinstance(value, dict):
            _CLUSTERED_INDEX.check(f"{path}.{name}", value, release)


def _needs(context: MemberContext) -> Rights:
    """A view that its creator could read needs the rights on what it shows, too."""
    command, own = context.command, namespace(context.database, text_of(context.command.get(context.name)))
    if command.get("capped"):
        yield right(own, "convertToCapped")
    if "viewOn" not in command:
        yield either(right(own, "createCollection"), right(own, "insert"))
        return
    yield right(own, "createCollection")
    if may(context, right(own, "find")):
        yield right(namespace(context.database, text_of(command["viewOn"])), "find")
        yield from stages_need(context.database, command.get("pipeline"))


_FIELDS: Final = command(
    {
        "create": COLLECTION, "capped": LOOSE_FLAG, "autoIndexId": LOOSE_FLAG, "size": at_least(1),
        "max": NUMBER,
        "storageEngine": OBJECT, "temp": LOOSE_FLAG, "validator": OBJECT, "validationLevel": TEXT,
        "validationAction": TEXT, "indexOptionDefaults": OBJECT, "viewOn": TEXT, "pipeline": array_of(OBJECT),
        "collation": OBJECT, "changeStreamPreAndPostImages": struct(_IMAGES), "expireAfterSeconds": NUMBER,
        "idIndex": struct(_ID_INDEX), "timeseries": struct(_TIME_SERIES), "flags": NUMBER,
        "recordPreImages": LOOSE_FLAG,
        "clusteredIndex": _ClusteredIndex(
            lambda value: isinstance(value, bool | int | float | Decimal128 | dict),
            "[bool, object]",
            null_code=ErrorCode.TypeMismatch,
        ),
        "encryptedFields": struct(
            Fields(
                {"fields": ARRAY, "escCollection": ANY, "eccCollection": ANY, "ecocCollection": ANY},
                required=("fields",),
            )
        ),
    },
    until={"recordPreImages": LATER},
)  # fmt: skip

COMMAND = Command(
    "create",
    run,
    needs=_needs,
    help="Create a collection or a view.",
    fields=_FIELDS,
    is_write=True,
    in_transaction=True,
)
