"""`collMod`: change the options of a collection, an index or a view."""

from typing import Any, Final

from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid, images_option
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.coll_mod import CollectionChanges, coll_mod
from tailrace.mongod.store.ddl.coll_mod_index import IndexChange
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.write_unit import WriteUnit

_TEXTS: Final = ("validationLevel", "validationAction")


async def run(context: MemberContext) -> dict[str, Any]:
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    changes = CollectionChanges(
        index=_index_change(arguments),
        view_on=arguments.text("viewOn", None),
        pipeline=arguments.array("pipeline", None),
        expire_after_seconds=_expire_after_seconds(arguments),
        capped_size=arguments.integer("cappedSize", None),
        capped_max=arguments.integer("cappedMax", None),
        timeseries=arguments.document("timeseries", None),
        options=_options(arguments),
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
    options["changeStreamPreAndPostImages"] = images_option(arguments)
    return {option: value for option, value in options.items() if value is not None}


def _expire_after_seconds(arguments: Arguments) -> int | str | None:
    value = arguments.value("expireAfterSeconds", None)
    return value if isinstance(value, str) else arguments.integer("expireAfterSeconds", None)


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


COMMAND = Command(
    "collMod", run, help="Change the options of a collection, an index or a view.", is_write=True
)
