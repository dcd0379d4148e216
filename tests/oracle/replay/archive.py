"""What a workload leaves on a real server, as files that `tailrace replay` reads."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson import Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from tests.support.client_workload import RAW_OPTIONS


@dataclass(frozen=True)
class Archive:
    oplog: Path
    pre_images: Path
    documents: dict[str, Path]
    """Dumps of all collections, by namespace."""
    entries: int


def write_archive(
    client: "MongoClient[Any]", folder: Path, start: Timestamp, end: Timestamp, databases: Iterable[str]
) -> Archive:
    """Dump the oplog between two times, both included, all pre-images, and the databases' collections."""
    folder.mkdir(parents=True, exist_ok=True)
    local = client.get_database("local", RAW_OPTIONS)
    oplog = local.get_collection("oplog.rs").find({"ts": {"$gte": start, "$lte": end}}).sort("$natural", 1)
    entries = _dump(folder / "oplog.bson", oplog)
    config = client.get_database("config", RAW_OPTIONS)
    _dump(folder / "preimages.bson", config.get_collection("system.preimages").find())
    documents = {}
    for name in databases:
        database = client.get_database(name, RAW_OPTIONS)
        kinds = {"type": "collection"}
        for number, collection in enumerate(sorted(database.list_collection_names(filter=kinds))):
            path = folder / f"{name}.{number}.bson"
            if _dump(path, database[collection].find()):
                documents[f"{name}.{collection}"] = path
                _write_metadata(path, client[name], collection)
    return Archive(folder / "oplog.bson", folder / "preimages.bson", documents, entries)


def _write_metadata(path: Path, database: "Database[Any]", collection: str) -> None:
    """The file beside a dump that has the UUID of its collection, as `mongodump` writes it."""
    (found,) = database.list_collections(filter={"name": collection})
    metadata = {"collectionName": collection, "uuid": bytes(found["info"]["uuid"]).hex()}
    path.with_suffix(".metadata.json").write_text(json.dumps(metadata))


def _dump(path: Path, found: Iterable[RawBSONDocument]) -> int:
    count = 0
    with path.open("wb") as file:
        for document in found:
            file.write(document.raw)
            count += 1
    return count
