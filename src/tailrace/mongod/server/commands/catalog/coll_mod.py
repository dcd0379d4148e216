"""`collMod`: change the options of a collection, an index or a view."""

from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.mongod.server.access.authorization import may
from tailrace.mongod.server.access.needs import Rights, right, text_of
from tailrace.mongod.server.access.pipeline_needs import stages_need
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid, images_option
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import LATER, Fields, command
from tailrace.mongod.server.dispatch.kinds import (
    COLLECTION,
    FLAG,
    LOOSE_FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    UUID,
    Kind,
    array_of,
    struct,
)  # fmt: skip
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.coll_mod import CollectionChanges, coll_mod
from tailrace.mongod.store.ddl.coll_mod_index import IndexChange
from tailrace.mongod.store.ddl.collection_options import MAX_CAPPED_SIZE, NO_CAPPED_MAX
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.write_unit import WriteUnit

_TEXTS: Final = ("validationLevel", "validationAction")


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    database, name = context.database, context.collection_name()
    changes = CollectionChanges(
        index=_index_change(arguments),
        view_on=arguments.text("viewOn", None),
        pipeline=arguments.documents("pipeline"),
        expire_after_seconds=_expire_after_seconds(arguments),
        capped_size=arguments.integer("cappedSize", None, minimum=1, maximum=MAX_CAPPED_SIZE),
        capped_max=arguments.integer("cappedMax", None, maximum=NO_CAPPED_MAX),
        timeseries=_timeseries(arguments),
        options=_options(arguments),
        dry_run=arguments.boolean("dryRun", False),
    )
    expected = collection_uuid(arguments)
    arguments.ignore("isTimeseriesNamespace", "rawData")
    arguments.finish()

    def work(unit: WriteUnit) -> dict[str, Any]:
        check_uuid(unit.catalog, database, name, expected)
        return coll_mod(unit, database, name, changes)

    return await run_catalog_change(context, work)


def _options(arguments: Arguments) -> dict[str, Any]:
    options: dict[str, Any] = {"validator": arguments.document("validator", None)}
    options |= {option: arguments.text(option, None) for option in _TEXTS}
    options["recordPreImages"] = arguments.boolean("recordPreImages", None)
    options["changeStreamPreAndPostImages"] = images_option(arguments)
    return {option: value for option, value in options.items() if value is not None}


def _expire_after_seconds(arguments: Arguments) -> int | str | None:
    value = arguments.value("expireAfterSeconds", None)
    arguments.refuse_null("expireAfterSeconds", "[string, long, int, decimal, double]")
    return value if is_string(value) else arguments.integer("expireAfterSeconds", None)


def _timeseries(arguments: Arguments) -> dict[str, Any] | None:
    nested = arguments.nested("timeseries")
    if nested is not None:
        nested.ignore("granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds")
        nested.finish()
    return arguments.document("timeseries", None)


def _index_change(arguments: Arguments) -> IndexChange | None:
    index = arguments.nested("index")
    if index is None:
        return None
    change = IndexChange(
        name=index.text("name", None),
        key_pattern=index.document("keyPattern", None),
        expire_after_seconds=index.integer("expireAfterSeconds", None),
        hidden=index.boolean("hidden", None),
        unique=index.boolean("unique", None),
        prepare_unique=index.boolean("prepareUnique", None),
    )
    index.finish()
    return change


_IMAGES = Fields({"enabled": FLAG}, required=("enabled",))
_INDEX = Fields(
    {
        "name": TEXT, "keyPattern": OBJECT, "expireAfterSeconds": NUMBER, "hidden": LOOSE_FLAG,
        "unique": LOOSE_FLAG, "prepareUnique": LOOSE_FLAG, "forceNonUnique": LOOSE_FLAG,
    }
)  # fmt: skip
_TIME_SERIES = Fields({"granularity": TEXT}, is_open=True)


def _needs(context: MemberContext) -> Rights:
    """A view that the user can read needs the rights on what it shows, too."""
    command, own = context.command, namespace(context.database, text_of(context.command.get(context.name)))
    yield right(own, "collMod")
    if "viewOn" in command and may(context, right(own, "find")):
        yield right(namespace(context.database, text_of(command["viewOn"])), "find")
        yield from stages_need(context.database, command.get("pipeline"))


_FIELDS: Final = command(
    {
        "collMod": COLLECTION, "index": struct(_INDEX), "viewOn": TEXT, "pipeline": array_of(OBJECT),
        "validator": OBJECT, "validationLevel": TEXT, "validationAction": TEXT,
        "expireAfterSeconds": Kind(
            lambda value: is_string(value) or NUMBER.accepts(value),
            "[string, long]",
            null_code=ErrorCode.TypeMismatch,
        ),
        "cappedSize": NUMBER, "cappedMax": NUMBER, "timeseries": struct(_TIME_SERIES),
        "recordPreImages": LOOSE_FLAG,
        "changeStreamPreAndPostImages": struct(_IMAGES), "dryRun": LOOSE_FLAG, "isTimeseriesNamespace": FLAG,
        "collectionUUID": UUID, "rawData": FLAG,
    },
    since={"rawData": LATER},
    until={"recordPreImages": LATER},
    late=True,
)  # fmt: skip

COMMAND = Command(
    "collMod",
    run,
    needs=_needs,
    help="Change the options of a collection, an index or a view.",
    fields=_FIELDS,
    is_write=True,
)
