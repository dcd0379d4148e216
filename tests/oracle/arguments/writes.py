"""Samples of commands that write documents."""

from typing import Final

from tests.oracle.arguments.samples import COLLATION, FILLED, UUID, Sample

WRITES: Final[tuple[Sample, ...]] = (
    Sample(
        {"insert": "w", "documents": [{"_id": 9, "a": 1}]},
        {
            "ordered": True,
            "bypassDocumentValidation": True,
            "comment": "x",
            "stmtId": 1,
            "stmtIds": [1],
            "isTimeseriesNamespace": False,
            "collectionUUID": UUID,
            "encryptionInformation": {},
            "originalQuery": {},
            "originalCollation": {},
        },
        FILLED,
    ),
    Sample(
        {"update": "w", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 7}}}]},
        {
            "ordered": True,
            "bypassDocumentValidation": True,
            "comment": "x",
            "stmtId": 1,
            "stmtIds": [1],
            "isTimeseriesNamespace": False,
            "collectionUUID": UUID,
            "let": {"v": 1},
            "encryptionInformation": {},
            "runtimeConstants": {},
            "legacyRuntimeConstants": {},
            "originalQuery": {},
            "originalCollation": {},
        },
        FILLED,
    ),
    Sample(
        {
            "update": "w",
            "updates": [
                {
                    "q": {"_id": 1},
                    "u": {"$set": {"a": 7}},
                    "multi": False,
                    "upsert": False,
                    "arrayFilters": [],
                    "collation": {"locale": "simple"},
                    "hint": {"_id": 1},
                }
            ],
        },
        {},
        FILLED,
    ),
    Sample(
        {"update": "w", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"a": "$$v"}}], "c": {"v": 1}}]},
        {},
        FILLED,
    ),
    Sample(
        {"update": "w", "updates": [{"q": {"_id": 1}, "u": {"a": 7}, "upsertSupplied": False}]}, {}, FILLED
    ),
    Sample(
        {"delete": "w", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        {
            "ordered": True,
            "comment": "x",
            "stmtId": 1,
            "stmtIds": [1],
            "isTimeseriesNamespace": False,
            "collectionUUID": UUID,
            "let": {"v": 1},
            "legacyRuntimeConstants": {},
            "encryptionInformation": {},
            "bypassDocumentValidation": True,
        },
        FILLED,
    ),
    Sample(
        {
            "delete": "w",
            "deletes": [{"q": {"_id": 1}, "limit": 0, "collation": COLLATION, "hint": {"_id": 1}}],
        },
        {},
        FILLED,
    ),
    Sample(
        {"findAndModify": "w", "query": {"_id": 1}, "update": {"$set": {"a": 7}}},
        {
            "sort": {"a": 1},
            "new": True,
            "fields": {"a": 1},
            "upsert": False,
            "remove": False,
            "bypassDocumentValidation": True,
            "collation": COLLATION,
            "arrayFilters": [],
            "hint": {"_id": 1},
            "let": {"v": 1},
            "comment": "x",
            "stmtId": 1,
            "runtimeConstants": {},
            "legacyRuntimeConstants": {},
            "encryptionInformation": {},
            "maxTimeMS": 9000,
            "isTimeseriesNamespace": False,
            "collectionUUID": UUID,
        },
        FILLED,
    ),
    Sample(
        {"findAndModify": "w", "query": {"_id": 1}, "remove": True},
        {"sort": {"a": 1}, "fields": {"a": 1}},
        FILLED,
    ),
)
