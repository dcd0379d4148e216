"""Insert into capped collections, and remove the oldest documents for it.

The removal is logged as deletes after the insert. Each insert has its own entry, so that a reader of the
oplog sees the collection exceed its limits only between these entries.
"""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit


def insert_capped(
    unit: UnitOfWork, collection: Collection, document: bytes, statement_id: int | None
) -> None:
    """Insert a document, and remove the oldest ones until the collection is within its limits."""
    assert isinstance(unit, WriteUnit), "capped collections are not written to in transactions"
    most_bytes = int(collection.options["size"])
    most = int(collection.options.get("max") or 0)
    if len(document) > most_bytes:
        raise CommandError(ErrorCode.BadValue, "object to insert exceeds cappedMaxSize")
    unit.insert(collection, document, stmt_id=statement_id)
    unit.end_group()
    number, size = unit.count(collection)
    while number > 1 and (size > most_bytes or 0 < most < number):
        key, oldest = next(unit.records(collection))
        unit.delete(collection, key, oldest)
        number, size = number - 1, size - len(oldest)
