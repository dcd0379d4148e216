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
    database, name = _split(arguments.text(field))
    check_database_name(database)
    check_collection_name(database, name)
    return database, name


def target_argument(arguments: Arguments, field: str) -> tuple[str, str]:
    """The namespace that something is renamed to; that it cannot be used is IllegalOperation (20)."""
    database, name = _split(arguments.text(field))
    if "$" not in database:
        check_database_name(database)
    try:
        check_database_name(database)
        check_collection_name(database, name)
    except CommandError as error:
        reason = f"error with target namespace: {error.message}"
        raise CommandError(ErrorCode.IllegalOperation, reason) from None
    return database, name


def _split(ns: str) -> tuple[str, str]:
    database, _, name = ns.partition(".")
    if not (database and name):
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{ns}'")
    return database, name


def images_option(arguments: Arguments) -> dict[str, bool] | None:
    """`changeStreamPreAndPostImages: {enabled}`."""
    images = arguments.nested("changeStreamPreAndPostImages")
    if images is None:
        return None
    images.ignore("enabled")
    images.finish()
    return {"enabled": images.boolean("enabled", REQUIRED, strict=True)}


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
