"""Samples of commands about collections, indexes and databases."""

from typing import Final

from tests.oracle.arguments.samples import COLLATION, DATABASE, OTHER, UUID, Sample, admin, fresh

_MADE: Final = fresh(
    "d", {"create": "d"}, {"createIndexes": "d", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}
)
CATALOG: Final[tuple[Sample, ...]] = (
    Sample(
        {"create": "n"},
        {
            "capped": False,
            "autoIndexId": True,
            "size": 4096,
            "max": 5,
            "storageEngine": {},
            "temp": True,
            "validator": {"a": 1},
            "validationLevel": "strict",
            "validationAction": "error",
            "indexOptionDefaults": {},
            "viewOn": "c",
            "pipeline": [],
            "collation": COLLATION,
            "comment": "x",
            "changeStreamPreAndPostImages": {"enabled": True},
            "expireAfterSeconds": 100,
            "idIndex": {"key": {"_id": 1}, "name": "_id_"},
            "timeseries": {"timeField": "t", "metaField": "m", "granularity": "hours"},
            "flags": 1,
            "clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "x"},
            "recordPreImages": False,
            "encryptedFields": {},
        },
        fresh("n"),
    ),
    Sample({"create": "n", "capped": True, "size": 4096, "max": 5}, {}, fresh("n")),
    Sample(
        {"create": "n", "viewOn": "c", "pipeline": [{"$match": {}}]}, {"collation": COLLATION}, fresh("n")
    ),
    Sample(
        {"collMod": "d"},
        {
            "index": {"name": "a_1", "hidden": True},
            "viewOn": "c",
            "pipeline": [],
            "validator": {},
            "validationLevel": "strict",
            "validationAction": "error",
            "expireAfterSeconds": 100,
            "cappedSize": 4096,
            "cappedMax": 5,
            "comment": "x",
            "timeseries": {"granularity": "hours"},
            "changeStreamPreAndPostImages": {"enabled": True},
            "dryRun": False,
            "recordPreImages": False,
            "isTimeseriesNamespace": False,
            "clusteredIndex": {},
            "collectionUUID": UUID,
        },
        _MADE,
    ),
    Sample(
        {
            "collMod": "d",
            "index": {
                "keyPattern": {"a": 1},
                "prepareUnique": True,
                "expireAfterSeconds": 5,
                "unique": False,
            },
        },
        {},
        _MADE,
    ),
    Sample(
        {
            "createIndexes": "d",
            "indexes": [
                {"key": {"b": 1}, "name": "b_1", "unique": False, "sparse": True, "expireAfterSeconds": 5}
            ],
        },
        {
            "commitQuorum": "majority",
            "ignoreUnknownIndexOptions": False,
            "comment": "x",
            "indexUUID": UUID,
            "isTimeseriesNamespace": False,
            "runTwoPhaseIndexBuild": False,
        },
        _MADE,
    ),
    Sample({"dropIndexes": "d", "index": "a_1"}, {"comment": "x", "isTimeseriesNamespace": False}, _MADE),
    Sample({"drop": "d"}, {"comment": "x", "collectionUUID": UUID}, _MADE),
    Sample(
        {"dropDatabase": 1},
        {"comment": "x", "dropPending": True},
        ({"insert": "x", "documents": [{"_id": 1}]},),
        OTHER,
    ),
    Sample(
        {"renameCollection": f"{OTHER}.f", "to": f"{OTHER}.g"},
        {"dropTarget": True, "stayTemp": True, "comment": "x", "collectionUUID": UUID},
        ({"insert": "f", "documents": [{}]}, {"drop": "g"}, {"drop": "f"}, {"create": "f"}),
        "admin",
    ),
    Sample(
        {"listCollections": 1},
        {
            "cursor": {"batchSize": 1},
            "filter": {"name": "c"},
            "nameOnly": True,
            "authorizedCollections": True,
            "comment": "x",
            "includePendingDrops": True,
        },
    ),
    Sample(
        {"listIndexes": "c"},
        {
            "cursor": {"batchSize": 1},
            "includeBuildUUIDs": True,
            "comment": "x",
            "isTimeseriesNamespace": False,
            "includeIndexBuildInfo": False,
        },
    ),
    Sample({"listIndexes": "missing"}, {"cursor": {"batchSize": 0}}),
    admin(
        {"listDatabases": 1},
        {"filter": {"name": "admin"}, "nameOnly": True, "authorizedDatabases": True, "comment": "x"},
        outcome_only=True,
    ),
    Sample(
        {"collStats": "c"},
        {"scale": 1, "verbose": True, "waitForLock": True, "numericOnly": True},
        outcome_only=True,
    ),
    Sample({"dbStats": 1}, {"scale": 1, "freeStorage": 1}, outcome_only=True),
    Sample(
        {"dataSize": f"{DATABASE}.c"},
        {
            "keyPattern": {"_id": 1},
            "min": {"_id": 0},
            "max": {"_id": 3},
            "estimate": True,
            "maxSize": 100,
            "maxObjects": 5,
        },
        outcome_only=True,
    ),
    Sample(
        {"validate": "c"},
        {
            "full": False,
            "background": False,
            "metadata": False,
            "repair": False,
            "enforceFastCount": False,
            "checkBSONConformance": False,
        },
        outcome_only=True,
    ),
    Sample({"convertToCapped": "d", "size": 4096}, {"comment": "x"}, _MADE),
)
