"""Stages for streams' pipelines: each that a server has, right and wrong, and names of none."""

import json
from typing import Any, Final

_SPECIFICATIONS: Final = r"""
$match {} | 1 | {"$foo": 1} | {"a": {"$foo": 1}} | {"$expr": {"$foo": 1}}
$project {} | {"a": 1} | {"a": 1, "b": 0} | 1 | {"_id": 0} | {"_id": 0, "a": 1}
$addFields {} | {"a": 1} | 1 | {"a": {"$foo": 1}}
$set {"a": 1} | 1 | {"_id": 1}
$unset "a" | 1 | [] | "" | "_id"
$replaceRoot {"newRoot": "$$ROOT"} | {} | 1 | {"newRoot": 1}
$replaceWith "$$ROOT" | 1 | {"a": 1}
$redact "$$KEEP" | 1 | "$$FOO"
$group {"_id": 1} | {} | 1 | {"_id": 1, "a": 1}
$sort {"a": 1} | {} | 1 | {"a": 2}
$limit 1 | 0 | -1 | "x"
$skip 1 | -1 | "x"
$count "x" | "" | 1 | "$x"
$unwind "$a" | "a" | 1
$sample {"size": 1} | {} | 1 | {"size": -1}
$lookup {"from": "c", "localField": "a", "foreignField": "a", "as": "x"} | {} | 1
$lookup {"from": "c", "as": "x", "pipeline": [{"$changeStream": {}}]}
$lookup {"from": "c", "as": "x", "pipeline": [{"$match": 1}]}
$lookup {"from": "c", "as": "x", "pipeline": [{"$out": "x"}]}
$graphLookup {"from": "c", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x"}
$graphLookup {} | 1
$facet {"a": [{"$match": {}}]} | {} | 1 | {"a": [{"$changeStream": {}}]} | {"a": [{"$match": 1}]}
$facet {"a": [{"$out": "x"}]}
$bucket {"groupBy": "$a", "boundaries": [1, 2]} | {} | 1
$bucketAuto {"groupBy": "$a", "buckets": 1} | {} | 1
$sortByCount "$a" | 1 | "a" | ""
$out "x" | 1 | {} | {"db": "test", "coll": "x"} | ""
$merge "x" | {"into": "x"} | {} | 1 | {"into": "x", "whenMatched": "foo"}
$unionWith "c" | 1 | {} | {"coll": "c", "pipeline": [{"$changeStream": {}}]}
$unionWith {"coll": "c", "pipeline": [{"$match": 1}]} | {"coll": "c", "pipeline": [{"$out": "x"}]}
$unionWith {"pipeline": []}
$setWindowFields {"output": {}} | {} | 1 | {"sortBy": {"a": 1}, "output": {"x": {"$sum": 1}}}
$densify {"field": "a", "range": {"step": 1, "bounds": "full"}} | {} | 1
$fill {"output": {"a": {"value": 1}}} | {"output": {}} | {} | 1
$documents [] | [{"a": 1}] | 1
$currentOp {} | 1 | {"foo": 1}
$listSessions {} | 1
$listLocalSessions {} | 1 | {"foo": 1}
$collStats {} | 1 | {"foo": 1} | {"count": {}}
$indexStats {} | 1 | {"a": 1}
$planCacheStats {} | 1 | {"a": 1}
$geoNear {} | 1 | {"near": [1, 1], "distanceField": "d"}
$search {} | 1
$searchMeta {} | 1
$vectorSearch {} | 1
$listSearchIndexes {}
$listSampledQueries {}
$querySettings {}
$queryStats {} | 1
$rankFusion {}
$scoreFusion {}
$shardedDataDistribution {} | 1
$listCatalog {} | 1
$listClusterCatalog {}
$listMqlEntities {}
$listCachedAndActiveUsers {}
$operationMetrics {} | 1
$backupCursor {}
$backupCursorExtend {}
$mergeCursors {} | 1
$setMetadata {}
$score {}
$setVariableFromSubPipeline {}
$set_ 1
$cursor {}
$queue []
$sequentialCache 1
$teeConsumer 1
$hoppingWindow {}
$source {}
$emit {}
$validate {}
$_internalInhibitOptimization {} | 1 | {"a": 1}
$changeStream {} | 1 | {"foo": 1}
$changeStreamSplitLargeEvent {} | {"a": 1} | 1
$foo 1
foo 1
 1
"""
_INTERNAL: Final = """
$_internalSplitPipeline $_internalChangeStreamOplogMatch $_internalChangeStreamUnwindTransaction
$_internalChangeStreamTransform $_internalChangeStreamCheckInvalidate
$_internalChangeStreamCheckResumability $_internalChangeStreamCheckTopologyChange
$_internalChangeStreamHandleTopologyChange $_internalChangeStreamEnsureResumeTokenPresent
$_internalChangeStreamAddPreImage $_internalChangeStreamAddPostImage $_internalUnpackBucket
$_unpackBucket $_internalConvertBucketIndexStats $_internalReshardingIterateTransaction
$_internalReshardingOwnershipMatch $_internalReshardingAddResumeId $_internalFindAndModifyImageLookup
$_internalApplyOplogUpdate $_internalBoundedSort $_internalSetWindowFields $_internalDensify
$_internalDocuments $_internalSearchMongotRemote $_internalSearchIdLookup $_internalShardServerInfo
$_internalProjection $_internalAllCollectionStats $_internalShredDocuments $_internalStreamingGroup
$_internalComputeGeoNearDistance $_internalListCollections $_internalFoo $_addReshardingResumeId
$_internalShardFilter
"""


def _stages() -> list[Any]:
    found: list[Any] = []
    for line in _SPECIFICATIONS.strip().splitlines():
        name, _, specifications = line.partition(" ")
        found += [{name: json.loads(text)} for text in specifications.split(" | ")]
    for name in _INTERNAL.split():
        found += [{name: {}}, {name: 1}]
    return [*found, {}, {"$match": {}, "$project": {"a": 1}}, 1, None, "x", []]


STAGES: Final = _stages()
