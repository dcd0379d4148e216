"""`cloneCollectionAsCapped`: copy a collection to a new capped one."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.capped import insert_capped
from tailrace.mongod.store.ddl.collection_options import collection_options
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.write_unit import WriteUnit


def clone_as_capped(
    unit: WriteUnit, database: str, name: str, target: str, *, size: int, is_temporary: bool = False
) -> None:
    """Copy all documents in their order; those that the copy has no room for are removed from it again.

    Streams do not show the copied documents, as on a real server.
    """
    if not list(unit.catalog.collections(database)):
        raise CommandError(ErrorCode.NamespaceNotFound, f"database {database} not found")
    collection = existing_collection(unit.catalog, database, name)
    check_new_collection(unit.catalog, database, target)
    ns = f"{database}.{target}"
    if unit.catalog.collection(ns) is not None or unit.catalog.view(ns) is not None:
        raise CommandError(
            ErrorCode.NamespaceExists,
            f"cloneCollectionAsCapped failed - destination collection {ns} already exists. "
            f"source collection: {database}.{name}",
        )
    given = {**collection.options, "capped": True, "size": size, "temp": is_temporary, "max": None}
    copy = unit.create_collection(database, target, collection_options(database, target, given, unit.rules))
    for _, document in unit.records(collection):
        insert_capped(unit, copy, document, None, from_migrate=True)
