"""Insert into capped collections, and remove the oldest documents for it.

The removal is logged as deletes after the insert. Each insert has its own entry, so that a reader of the
oplog sees the collection exceed its limits only between these entries.
"""

from collections.abc import Iterator

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit


def insert_capped(
    unit: UnitOfWork,
    collection: Collection,
    document: bytes,
    statement_id: int | None,
    *,
    from_migrate: bool = False,
) -> None:
    """Insert a document, and remove the oldest ones until the collection is within its limits.

    ``from_migrate`` marks the entry of the insert, but not those of the removals.
    """
    assert isinstance(unit, WriteUnit), "capped collections are not written to in transactions"
    if len(document) > int(collection.options["size"]):
        raise CommandError(ErrorCode.BadValue, "object to insert exceeds cappedMaxSize")
    was_moving, unit.moves_data = unit.moves_data, unit.moves_data or from_migrate
    unit.insert(collection, document, stmt_id=statement_id)
    unit.end_group()
    unit.moves_data = was_moving
    for key, oldest in excess(unit, collection):
        unit.delete(collection, key, oldest)


def excess(unit: WriteUnit, collection: Collection) -> Iterator[Record]:
    """The oldest records of a capped collection, until it is within its limits; the caller removes each."""
    most_bytes = int(collection.options["size"])
    most = int(collection.options.get("max") or 0)
    number, size = unit.count(collection)
    while number > 1 and (size > most_bytes or 0 < most < number):
        key, oldest = next(unit.records(collection))
        yield key, oldest
        number, size = number - 1, size - len(oldest)
