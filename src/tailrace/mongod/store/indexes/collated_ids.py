"""Bring data directories up to date in which the index on `_id` did not use the collection's collation."""

from typing import Final

from tailrace.errors import CommandError, UsageError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.write_unit import WriteUnit

_DONE: Final = "collatedIds"


def collate_ids(unit: WriteUnit, *, is_new: bool) -> None:
    """Make the index on `_id` of every collection with a collation again, once; part of a job.

    Raises `UsageError` if two documents have an `_id` that the collation makes equal, and for clustered
    collections, whose documents are stored in the order of `_id`.
    """
    if unit.meta(_DONE) is not None:
        return
    if not is_new:
        for collection in list(unit.catalog.collections()):
            if collection.collation is not None:
                _collate(unit, collection)
    unit.put_meta(_DONE, b"")


def _collate(unit: WriteUnit, collection: Collection) -> None:
    remedy = "change that with the version that wrote the data directory, or use another directory"
    if collection.is_clustered:
        raise UsageError(
            f"{collection.ns} is clustered, has a collation, and was written by an earlier version, which "
            f"did not order its documents by the collation; {remedy}"
        )
    before = collection.id_index
    if before is None:
        return
    index = Index(unit.new_ident(), before.spec, before.changed)
    for key, document in unit.records(collection):
        try:
            unit.add_to_index(collection, index, key, document)
        except CommandError as error:
            raise UsageError(f"{error.message}: its collation makes two _ids equal; {remedy}") from None
    unit.discard("index", before.ident)
    # Readers of earlier states use the new index, too, so it does not appear at this time.
    unit.put_build(collection.with_changes(indexes=(index, *collection.indexes[1:])))
