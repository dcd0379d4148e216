"""The names of MongoDB's aggregation stages.

A stage that a pipeline may not use and a name that is not a stage have different errors.
"""

from typing import Final

AGGREGATION_STAGES: Final = frozenset({
    "$addFields", "$bucket", "$bucketAuto", "$changeStream", "$changeStreamSplitLargeEvent", "$collStats",
    "$count", "$currentOp", "$densify", "$documents", "$facet", "$fill", "$geoNear", "$graphLookup",
    "$group", "$indexStats", "$limit", "$listCachedAndActiveUsers", "$listCatalog", "$listLocalSessions",
    "$listSampledQueries", "$listSearchIndexes", "$listSessions", "$lookup", "$match", "$merge",
    "$operationMetrics", "$out", "$planCacheStats", "$project", "$querySettings", "$queryStats",
    "$rankFusion", "$redact", "$replaceRoot", "$replaceWith", "$sample", "$scoreFusion",
    "$search", "$searchMeta", "$set", "$setWindowFields", "$shardedDataDistribution", "$skip", "$sort",
    "$sortByCount", "$unionWith", "$unset", "$unwind", "$vectorSearch",
})  # fmt: skip

BETWEEN_SERVERS: Final = frozenset({
    "$_addReshardingResumeId", "$_internalChangeStreamAddPostImage", "$_internalChangeStreamAddPreImage",
    "$_internalChangeStreamCheckInvalidate", "$_internalChangeStreamCheckResumability",
    "$_internalChangeStreamCheckTopologyChange", "$_internalChangeStreamHandleTopologyChange",
    "$_internalChangeStreamOplogMatch", "$_internalChangeStreamTransform",
    "$_internalChangeStreamUnwindTransaction", "$_internalDensify", "$_internalFindAndModifyImageLookup",
    "$_internalReshardingIterateTransaction", "$_internalReshardingOwnershipMatch", "$mergeCursors",
    "$queue", "$setVariableFromSubPipeline",
})  # fmt: skip
"""Stages that servers send to each other and that no client may use."""
_INTERNAL: Final = frozenset({
    "$_internalAllCollectionStats", "$_internalApplyOplogUpdate", "$_internalBoundedSort",
    "$_internalComputeGeoNearDistance", "$_internalConvertBucketIndexStats", "$_internalInhibitOptimization",
    "$_internalSetWindowFields", "$_internalShardServerInfo", "$_internalShredDocuments",
    "$_internalSplitPipeline", "$_internalStreamingGroup", "$_internalUnpackBucket", "$_unpackBucket",
})  # fmt: skip


def is_stage(name: str) -> bool:
    """Whether a stage has this name; internal stages are included."""
    return name in AGGREGATION_STAGES or name in BETWEEN_SERVERS or name in _INTERNAL
