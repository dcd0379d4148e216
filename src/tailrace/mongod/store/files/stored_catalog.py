"""Read the catalog of a data directory."""

from tailrace.bson import documents
from tailrace.mongod.store.catalog import BUCKETS, VIEWS, Catalog, Collection, View
from tailrace.mongod.store.reader import Snapshot
from tailrace.mongod.store.tables import Tables, Transaction


def load_catalog(reader: Snapshot, tables: Tables, transaction: Transaction) -> Catalog:
    """The catalog as it is stored."""
    collections = {}
    for _, raw in transaction.cursor(db=tables.catalog):
        collection = Collection.from_bson(raw)
        collections[collection.ns] = collection
    views = {}
    for collection in collections.values():
        if collection.name == VIEWS:
            for _, raw in reader.records(collection):
                view = _view_of(raw)
                if not view.view_on.startswith(BUCKETS):
                    views[view.ns] = view
    return Catalog(collections, views)


def _view_of(definition: bytes) -> View:
    """The view of a document in `system.views`."""
    found = documents.decode(definition)
    database, _, name = found["_id"].partition(".")
    return View(database, name, found["viewOn"], tuple(found["pipeline"]), found.get("collation"))
