"""Capped collections: room for a new document is made by removing the oldest ones.

The removal is not logged: every reader of the oplog knows the collection's limits as well.
"""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.writes.unit import WritingUnit
from tailrace.store.catalog import Collection


def check_fits(collection: Collection, document: bytes) -> None:
    """Refuse a document that is larger than the whole collection may be."""
    if len(document) > int(collection.options["size"]):
        raise CommandError(ErrorCode.BadValue, "object to insert exceeds cappedMaxSize")


def trim(unit: WritingUnit, collection: Collection) -> None:
    """Remove the oldest documents until the collection is within its limits."""
    most_bytes = int(collection.options["size"])
    most = int(collection.options.get("max") or 0)
    number, size = unit.count(collection)
    while number > 1 and (size > most_bytes or 0 < most < number):
        key, oldest = next(unit.records(collection))
        unit.put_removed(collection, key, oldest)
        number, size = number - 1, size - len(oldest)
