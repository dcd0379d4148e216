"""Read arguments that several commands have: namespaces, UUIDs, the images option."""

from typing import Any, Final

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import REQUIRED, Arguments
from tailrace.mongod.server.dispatch.generic_arguments import check_database_name
from tailrace.mongod.store.ddl.names import check_collection_name

_UUID_SUBTYPE: Final = 4
_UUID_SIZE: Final = 16


def namespace_argument(arguments: Arguments, field: str) -> tuple[str, str]:
    """A full namespace as a database and a collection, both checked as names."""
    ns = arguments.text(field)
    database, dot, name = ns.partition(".")
    if not dot:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{ns}'")
    check_database_name(database)
    check_collection_name(database, name)
    return database, name


def images_option(arguments: Arguments) -> dict[str, bool] | None:
    """`changeStreamPreAndPostImages: {enabled}`."""
    images = arguments.nested("changeStreamPreAndPostImages")
    if images is None:
        return None
    enabled = images.boolean("enabled", REQUIRED, strict=True)
    images.finish()
    return {"enabled": enabled}


def collection_uuid(arguments: Arguments) -> bytes | None:
    """`collectionUUID`: the UUID that the client expects the collection to have."""
    value: Any = arguments.value("collectionUUID", None)
    if value is None:
        return None
    if not isinstance(value, Binary) or value.subtype != _UUID_SUBTYPE:
        raise arguments.wrong_type("collectionUUID", value, "UUID")
    if len(value) != _UUID_SIZE:
        raise CommandError(
            ErrorCode.InvalidUUID, f"uuid must be a {_UUID_SIZE}-byte binary field, not {len(value)}"
        )
    return bytes(value)
