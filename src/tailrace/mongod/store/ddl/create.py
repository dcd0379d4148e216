"""`create` of collections; for views see `views`."""

from collections.abc import Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import BUCKETS, Catalog, Collection, View
from tailrace.mongod.store.ddl.collection_options import collection_options
from tailrace.mongod.store.ddl.names import check_new_collection
from tailrace.mongod.store.ddl.timeseries import create_timeseries
from tailrace.mongod.store.ddl.views import check_dependents
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit


def create_collection(unit: UnitOfWork, database: str, name: str, options: Mapping[str, Any]) -> Collection:
    """Create a collection; does nothing if it exists with the same options and the release allows that.

    Raises NamespaceExists (48) if there is a collection with other options or a view of that name.
    """
    check_new_collection(unit.catalog, database, name)
    ns = f"{database}.{name}"
    existing = unit.catalog.collection(ns)
    is_series = existing is not None and existing.is_timeseries
    if is_series and options.get("timeseries") is None:
        raise CommandError(ErrorCode.NamespaceExists, f"A timeseries collection already exists. NS: {ns}")
    # In a transaction a repeated create is an error in every release.
    if existing is not None and (unit.rules.repeats_are_errors or not isinstance(unit, WriteUnit)):
        raise CommandError(ErrorCode.NamespaceExists, f"Collection {ns} already exists.")
    wanted = collection_options(database, name, options, unit.rules)
    if existing is not None:
        if not existing.is_internal and dict(existing.options) == wanted:
            return existing
        raise CommandError(
            ErrorCode.NamespaceExists, f"namespace {ns} already exists, but with different options"
        )
    check_no_view(unit.catalog, ns)
    if "timeseries" in wanted:
        if not isinstance(unit, WriteUnit):
            raise CommandError(
                ErrorCode.OperationNotSupportedInTransaction,
                f"Cannot create a time-series collection in a multi-document transaction: {ns}",
            )
        check_dependents(unit.catalog, View(database, name, BUCKETS + name, (), wanted.get("collation")))
        return create_timeseries(unit, database, name, wanted)
    version = (options.get("idIndex") or {}).get("v", 2)
    return unit.create_collection(database, name, wanted, id_version=int(version))


def check_no_view(catalog: Catalog, ns: str) -> None:
    """Raise NamespaceExists (48) if a view has that name."""
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.NamespaceExists, f"A view already exists. NS: {ns}")
