"""Time series: a collection with buckets, and a view on it that unpacks them.

Clients use the name of the view. Its definition is a document of `system.views` like any other, but the
catalog does not list it as a view: it finds the buckets by both names.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.bson import documents
from tailrace.mongod.store.catalog import BUCKETS, VIEWS, Collection
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.write_unit import WriteUnit


def create_timeseries(unit: WriteUnit, database: str, name: str, options: Mapping[str, Any]) -> Collection:
    """Create the buckets and the view; the caller has checked the name and the options."""
    buckets = unit.create_collection(database, BUCKETS + name, options)
    definitions = unit.catalog.collection(f"{database}.{VIEWS}") or unit.create_collection(database, VIEWS)
    unit.insert(definitions, _definition(buckets))
    unit.end_group()
    return buckets


def drop_definition(unit: WriteUnit, buckets: Collection) -> None:
    """Remove the view; its collection is to be dropped next."""
    found = _stored(unit, buckets)
    if found is not None:
        unit.delete(*found)


def update_definition(unit: WriteUnit, buckets: Collection) -> None:
    """Replace the view's definition if the changed options of its collection show in it."""
    found = _stored(unit, buckets)
    after = _definition(buckets)
    if found is not None and found[2] != after:
        unit.update(*found, after, after)


def bucket_schema(time_field: str) -> dict[str, Any]:
    """The validator of a collection with buckets."""
    times = {"bsonType": "object", "required": [time_field], "properties": {time_field: {"bsonType": "date"}}}
    control = {
        "bsonType": "object",
        "required": ["version", "min", "max"],
        "properties": {
            "version": {"bsonType": "number"},
            "min": times,
            "max": times,
            "closed": {"bsonType": "bool"},
            "count": {"bsonType": "number", "minimum": 1},
        },
        "additionalProperties": False,
    }
    schema = {
        "bsonType": "object",
        "required": ["_id", "control", "data"],
        "properties": {
            "_id": {"bsonType": "objectId"},
            "control": control,
            "data": {"bsonType": "object"},
            "meta": {},
        },
        "additionalProperties": False,
    }
    return {"$jsonSchema": schema}


def _definition(buckets: Collection) -> bytes:
    """The document in `system.views`."""
    options = buckets.options["timeseries"]
    shown = ("timeField", "metaField", "bucketMaxSpanSeconds")
    unpack = {field: options[field] for field in shown if field in options}
    definition: dict[str, Any] = {
        "_id": _view_ns(buckets),
        "viewOn": buckets.name,
        "pipeline": [{"$_internalUnpackBucket": unpack}],
    }
    if "collation" in buckets.options:
        definition["collation"] = buckets.options["collation"]
    return documents.encode(definition)


def _stored(unit: WriteUnit, buckets: Collection) -> tuple[Collection, bytes, bytes] | None:
    definitions = unit.catalog.collection(f"{buckets.database}.{VIEWS}")
    by_id = id_key_of(documents.encode({"_id": _view_ns(buckets)}))
    found = None if definitions is None or by_id is None else unit.find_id(definitions, by_id)
    return None if definitions is None or found is None else (definitions, *found)


def _view_ns(buckets: Collection) -> str:
    return f"{buckets.database}.{buckets.name.removeprefix(BUCKETS)}"
