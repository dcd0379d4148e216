"""Streams to compare, written by hand: three scopes, every option, pipelines of many kinds."""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from bson import Regex, Timestamp

from tests.oracle.replay.commands import SIDE
from tests.oracle.replay.stream_case import Document, StreamCase
from tests.support.client_workload import COLLECTIONS, RENAMED

SPLIT: Final[Document] = {"$changeStreamSplitLargeEvent": {}}
EXPANDED: Final[Document] = {"showExpandedEvents": True}
EVERYTHING: Final[Document] = {**EXPANDED, "showSystemEvents": True, "showMigrationEvents": True}
LOOKUP: Final[Document] = {"fullDocument": "updateLookup"}
IMAGES: Final[Document] = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}
OPTIONS: Final[tuple[Document, ...]] = (
    {},
    EXPANDED,
    EVERYTHING,
    {"showSystemEvents": True},
    {"showMigrationEvents": True},
    {"showRawUpdateDescription": True},
    {**EXPANDED, "showRawUpdateDescription": True},
    LOOKUP,
    {**EXPANDED, **LOOKUP},
    {**LOOKUP, "matchCollectionUUIDForUpdateLookup": True},
    {"fullDocument": "whenAvailable"},
    {"fullDocument": "required"},
    {"fullDocumentBeforeChange": "whenAvailable"},
    {"fullDocumentBeforeChange": "required"},
    IMAGES,
    {**IMAGES, **EVERYTHING},
    {**LOOKUP, "fullDocumentBeforeChange": "whenAvailable", "showRawUpdateDescription": True},
)
PIPELINES: Final[tuple[tuple[Document, list[Document]], ...]] = (
    ({}, [{"$match": {"operationType": "insert"}}]),
    (EXPANDED, [{"$match": {"operationType": {"$nin": ["insert", "update"]}}}]),
    (LOOKUP, [{"$match": {"fullDocument.a": {"$exists": True}}}]),
    (LOOKUP, [{"$match": {"fullDocument.a": None}}]),
    (LOOKUP, [{"$match": {"fullDocument": None}}]),
    (IMAGES, [{"$match": {"fullDocumentBeforeChange.a": {"$ne": 1}}}]),
    (IMAGES, [{"$match": {"fullDocumentBeforeChange": None}}]),
    ({}, [{"$match": {"txnNumber": {"$exists": False}}}]),
    ({}, [{"$match": {"txnNumber": {"$exists": True}}}]),
    ({}, [{"$match": {"lsid": None}}]),
    ({}, [{"$match": {"lsid": {"$ne": None}, "operationType": "update"}}]),
    ({}, [{"$match": {"$expr": {"$lte": ["$txnNumber", None]}}}]),
    ({}, [{"$match": {"$or": [{"txnNumber": {"$gt": 0}}, {"operationType": "delete"}]}}]),
    ({}, [{"$match": {"txnNumber": {"$not": {"$gt": 2}}}}, {"$project": {"txnNumber": 1, "lsid": 1}}]),
    ({}, [{"$match": {"$nor": [{"lsid.id": {"$exists": True}}, {"operationType": "insert"}]}}]),
    ({}, [{"$match": {"ns.coll": Regex("^[os]")}}]),
    ({}, [{"$match": {"ns.db": {"$regex": "_a$"}, "ns.coll": {"$in": ["orders", "users"]}}}]),
    (EXPANDED, [{"$match": {"to.coll": {"$exists": True}}}]),
    ({}, [{"$match": {"documentKey._id": {"$type": ["string", "int", "object"]}}}]),
    ({}, [{"$match": {"documentKey._id": {"$gte": 3}}}]),
    ({}, [{"$match": {"updateDescription.updatedFields.rows": {"$exists": True}}}]),
    ({}, [{"$match": {"updateDescription.removedFields": {"$size": 1}}}]),
    ({}, [{"$match": {"updateDescription.truncatedArrays.0": {"$exists": True}}}]),
    ({}, [{"$match": {"wallTime": {"$type": "date"}}}, {"$project": {"wallTime": 1}}]),
    ({}, [{"$match": {"clusterTime": {"$gt": Timestamp(1, 1)}}}]),
    (LOOKUP, [{"$set": {"fullDocument": "none"}}]),
    ({}, [{"$set": {"documentKey": 1, "updateDescription": 2}}]),
    (LOOKUP, [{"$addFields": {"added": 1, "ns.extra": "$operationType", "fullDocument.extra": 1}}]),
    (EXPANDED, [{"$set": {"collectionUUID": "u", "nsType": "t", "to": 1, "operationDescription.x": 1}}]),
    (LOOKUP, [{"$unset": ["fullDocument", "ns"]}, {"$set": {"ns": 1, "fullDocument": 2}}]),
    (IMAGES, [{"$project": {"fullDocument": 1, "fullDocumentBeforeChange": 1, "documentKey": 1}}]),
    (IMAGES, [{"$project": {"fullDocument": 0, "clusterTime": 0}}]),
    (LOOKUP, [{"$project": {"ns.coll": 1, "fullDocument.a": 1, "type": "$operationType"}}]),
    (LOOKUP, [{"$replaceRoot": {"newRoot": {"_id": "$_id", "f": "$fullDocument", "k": "$documentKey._id"}}}]),
    (LOOKUP, [{"$replaceWith": {"$mergeObjects": [{"_id": "$_id"}, "$$ROOT", {"ns": "$$REMOVE"}]}}]),
    ({}, [{"$redact": {"$cond": [{"$eq": ["$operationType", "update"]}, "$$PRUNE", "$$KEEP"]}}]),
    (LOOKUP, [{"$redact": {"$cond": [{"$ifNull": ["$b", False]}, "$$PRUNE", "$$DESCEND"]}}]),
    ({}, [{"$project": {"_id": 0}}]),
    ({}, [{"$set": {"_id": {"$cond": [{"$eq": ["$operationType", "delete"]}, 1, "$_id"]}}}]),
    ({}, [{"$project": {"size": {"$size": "$updateDescription.removedFields"}}}]),
    ({}, [{"$project": {"text": {"$concat": ["$operationType", "/", "$ns.coll"]}}}]),
    (
        LOOKUP,
        [{"$project": {"type": {"$type": "$fullDocument.a"}, "keys": {"$objectToArray": "$documentKey"}}}],
    ),
    ({}, [{"$match": {"$expr": {"$in": ["$operationType", ["insert", "drop"]]}}}]),
    (LOOKUP, [{"$match": {"$expr": {"$gt": ["$fullDocument.qty", 5]}}}]),
    (LOOKUP, [{"$match": {"fullDocument.rows": {"$elemMatch": {"k": {"$gte": 1}}}}}]),
    ({}, [SPLIT]),
    ({**EXPANDED, **IMAGES}, [SPLIT]),
    (LOOKUP, [{"$match": {"operationType": "update"}}, SPLIT]),
    (IMAGES, [{"$set": {"fullDocument.more": "$fullDocumentBeforeChange"}}, SPLIT]),
)


def written_cases(start: Timestamp, databases: Sequence[str], rng: random.Random) -> list[StreamCase]:
    """All streams of this page on a workload's databases; scopes of pipelines and collections are drawn."""
    scopes: list[tuple[str | None, str | None]] = [(None, None), *((name, None) for name in databases)]
    named = [(name, collection) for name in databases for collection in (*COLLECTIONS, *RENAMED, *SIDE)]
    found = [
        StreamCase(*scope, options)
        for scope, options in product([*scopes[:2], rng.choice(named[:6])], OPTIONS)
    ]
    found += [StreamCase(*scope, rng.choice(OPTIONS)) for scope in named]
    for options, stages in PIPELINES:
        found.append(
            StreamCase(*rng.choice((scopes[0], rng.choice(scopes), rng.choice(named))), options, stages)
        )
    found += _special(databases)
    return [case.starting(startAtOperationTime=start) for case in found]


def _special(databases: Sequence[str]) -> Iterator[StreamCase]:
    """Streams with a collation or variables, or on system namespaces."""
    loose: Document = {"locale": "en", "strength": 1}
    for match in ({"operationType": "INSERT"}, {"ns.coll": {"$gte": "ORDERS"}}, {"fullDocument.a": "A"}):
        yield StreamCase(options=LOOKUP, pipeline=[{"$match": match}], collation=loose)
    yield StreamCase(
        pipeline=[{"$match": {"$expr": {"$eq": ["$operationType", "$$wanted"]}}}], let={"wanted": "delete"}
    )
    yield StreamCase(
        options=LOOKUP,
        pipeline=[{"$project": {"x": {"$concat": ["$$a", "$ns.coll"]}}}],
        let={"a": {"$toUpper": "b"}},
    )
    for name in ("system.js", "system.views", "system.buckets.series"):
        allowed: Any = {"allowToRunOnSystemNS": True, "showSystemEvents": True}
        yield StreamCase(databases[0], name, allowed)
