"""Shared by the tests of writing commands."""

import bson
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from tailrace.events.cluster_time import to_timestamp
from tests.mongod.server.oplog import began
from tests.mongod.server.running import Document


def entries_of(database: Database[Document]) -> list[Document]:
    """The oplog entries of a database, oldest first."""
    mine = {"$regex": f"^{database.name}\\."}
    since = to_timestamp(began.get(database.name, 0))
    query = {"ts": {"$gte": since}, "$or": [{"ns": mine}, {"o.applyOps.ns": mine}]}
    return list(database.client.local["oplog.rs"].find(query))


def insert_raw(database: Database[Document], name: str, documents: list[bytes]) -> Document:
    """Insert documents with exactly these bytes; returns the reply."""
    return database.command("insert", name, documents=[RawBSONDocument(raw) for raw in documents])


def write_errors(database: Database[Document], name: str, documents: list[Document]) -> list[tuple[int, int]]:
    """The index and code of each write error."""
    reply = insert_raw(database, name, [bson.encode(document) for document in documents])
    return [(error["index"], error["code"]) for error in reply.get("writeErrors", ())]
