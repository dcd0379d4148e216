"""`create` of collections; for views see `views`."""

from collections.abc import Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.collection_options import collection_options
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.unit_of_work import UnitOfWork


def create_collection(unit: UnitOfWork, database: str, name: str, options: Mapping[str, Any]) -> Collection:
    """Create a collection; does nothing if it exists with the same options.

    Raises NamespaceExists (48) if there is a collection with other options or a view of that name.
    """
    check_new_collection(unit.catalog, database, name)
    wanted = collection_options(database, name, options)
    ns = f"{database}.{name}"
    existing = unit.catalog.collection(ns)
    if existing is not None:
        if not existing.is_internal and dict(existing.options) == wanted:
            return existing
        raise CommandError(
            ErrorCode.NamespaceExists, f"namespace {ns} already exists, but with different options"
        )
    check_no_view(unit.catalog, ns)
    return unit.create_collection(database, name, wanted)


def check_no_view(catalog: Catalog, ns: str) -> None:
    """Raise NamespaceExists (48) if a view has that name."""
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.NamespaceExists, f"A view already exists. NS: {ns}")
