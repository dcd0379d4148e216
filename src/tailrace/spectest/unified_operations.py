"""The operations of the unified format, one function for each."""

from collections.abc import Callable
from typing import Any, Final

from pymongo.collection import Collection
from pymongo.database import Database

from tailrace.spectest.deployment import options_of
from tailrace.spectest.drivers import Driver, next_event
from tailrace.spectest.outcome import Unsupported

Document = dict[str, Any]
Arguments = dict[str, Any]


def create_change_stream(watched: Any, arguments: Arguments, driver: Driver) -> Any:
    """Open a stream with the driver that is tested."""
    pipeline = arguments.pop("pipeline", [])
    return driver(watched, pipeline, **options_of(arguments))


def _iterate(stream: Any, _arguments: Arguments) -> Document:
    return next_event(stream)


def _insert_one(collection: Collection[Document], arguments: Arguments) -> Document:
    result = collection.insert_one(arguments["document"])
    return {"insertedId": result.inserted_id}


def _update_one(collection: Collection[Document], arguments: Arguments) -> Document:
    result = collection.update_one(arguments["filter"], arguments["update"])
    return {"matchedCount": result.matched_count, "modifiedCount": result.modified_count}


def _replace_one(collection: Collection[Document], arguments: Arguments) -> Document:
    result = collection.replace_one(arguments["filter"], arguments["replacement"])
    return {"matchedCount": result.matched_count, "modifiedCount": result.modified_count}


def _delete_one(collection: Collection[Document], arguments: Arguments) -> Document:
    return {"deletedCount": collection.delete_one(arguments["filter"]).deleted_count}


def _rename(collection: Collection[Document], arguments: Arguments) -> None:
    collection.rename(arguments.pop("to"), **arguments)


def _create_index(collection: Collection[Document], arguments: Arguments) -> str:
    return collection.create_index(list(arguments.pop("keys").items()), **arguments)


def _drop_index(collection: Collection[Document], arguments: Arguments) -> None:
    collection.drop_index(arguments["name"])


def _create_collection(database: Database[Document], arguments: Arguments) -> None:
    database.create_collection(arguments.pop("collection"), **arguments)


def _drop_collection(database: Database[Document], arguments: Arguments) -> None:
    database.drop_collection(arguments["collection"])


def _run_command(database: Database[Document], arguments: Arguments) -> Document:
    # The command's name has to be the first field; in the file it may be any.
    name, command = arguments["commandName"], arguments["command"]
    reply: Document = database.command({name: command[name], **command})
    return reply


OPERATIONS: Final[dict[str, Callable[[Any, Arguments], Any]]] = {
    "createCollection": _create_collection,
    "createIndex": _create_index,
    "deleteOne": _delete_one,
    "dropCollection": _drop_collection,
    "dropIndex": _drop_index,
    "insertOne": _insert_one,
    "iterateUntilDocumentOrError": _iterate,
    "rename": _rename,
    "replaceOne": _replace_one,
    "runCommand": _run_command,
    "updateOne": _update_one,
}


def operate(name: str, entity: Any, arguments: Arguments, driver: Driver) -> Any:
    """Run an operation on an entity; return its result."""
    arguments = dict(arguments)
    if name == "createChangeStream":
        return create_change_stream(entity, arguments, driver)
    if name not in OPERATIONS:
        raise Unsupported(f"the operation {name} is not known")
    return OPERATIONS[name](entity, arguments)
