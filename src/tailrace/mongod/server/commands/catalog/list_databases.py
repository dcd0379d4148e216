"""`listDatabases`: list the databases with their sizes."""

from collections.abc import Callable
from typing import Any

from bson import Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.authorization import may, privileges_of
from tailrace.mongod.server.access.needs import LOGGED_IN, right
from tailrace.mongod.server.access.privileges import CLUSTER
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import FLAG, LOOSE_FLAG, OBJECT
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.statistics import collection_statistics
from tailrace.query.match import compile_match

_MEGABYTE = 1024 * 1024
_ALWAYS = ("admin",)
"""A replica set has its own documents there from the start."""


async def run(context: Context) -> dict[str, Any]:
    return list_databases(context, _entry)


def list_databases(context: Context, entry_of: Callable[[Reader, str], dict[str, Any]]) -> dict[str, Any]:
    """The reply with all databases that match the filter; ``entry_of`` builds the document of one."""
    arguments = context.arguments()
    matches = compile_match(arguments.document("filter", {}))
    name_only = arguments.boolean("nameOnly", False)
    authorized = arguments.boolean("authorizedDatabases", None, strict=True)
    arguments.finish()
    with context.reader() as reader:
        names = _visible(context, sorted({*reader.catalog.databases(), *_ALWAYS}), authorized)
        entries: list[dict[str, Any]] = [
            {"name": name} if name_only else entry_of(reader, name) for name in names
        ]
    found = [entry for entry in entries if matches(entry)]
    if name_only:
        return {"databases": found}
    total = sum(int(entry["sizeOnDisk"]) for entry in found)
    return {"databases": found, "totalSize": Int64(total), "totalSizeMb": Int64(total // _MEGABYTE)}


def _visible(context: Context, names: list[str], authorized: bool | None) -> list[str]:
    """The databases that the client may see: those it has a right in, unless it may list all."""
    if context.client.guard is None:
        return names
    may_list_all = may(context, right(CLUSTER, "listDatabases"))
    if authorized is False and not may_list_all:
        raise CommandError(ErrorCode.Unauthorized, "Insufficient permissions to list all databases")
    if may_list_all and not authorized:
        return names
    privileges = privileges_of(context)
    return [name for name in names if privileges.concern_database(name)]


def _entry(reader: Reader, database: str) -> dict[str, Any]:
    size = 0
    for collection in reader.catalog.collections(database):
        found = collection_statistics(reader, collection)
        size += found.storage_size + found.total_index_size
    # As in MongoDB, a database exists only while it has collections.
    return {"name": database, "sizeOnDisk": Int64(size), "empty": False}


_FIELDS = command({"filter": OBJECT, "nameOnly": LOOSE_FLAG, "authorizedDatabases": FLAG})

COMMAND = Command(
    "listDatabases",
    run,
    needs=LOGGED_IN,
    help="List the databases and their sizes.",
    fields=_FIELDS,
    admin_only=True,
    is_read=True,
)
