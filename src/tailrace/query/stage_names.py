"""The names of MongoDB's aggregation stages.

A pipeline that may not use some stage answers differently for a stage it forbids and for a name that is no
stage at all; the second is told by this list.
"""

from typing import Final

AGGREGATION_STAGES: Final = frozenset({
    "$addFields", "$bucket", "$bucketAuto", "$changeStream", "$changeStreamSplitLargeEvent", "$collStats",
    "$count", "$currentOp", "$densify", "$documents", "$facet", "$fill", "$geoNear", "$graphLookup",
    "$group", "$indexStats", "$limit", "$listLocalSessions", "$listSampledQueries", "$listSearchIndexes",
    "$listSessions", "$lookup", "$match", "$merge", "$out", "$planCacheStats", "$project", "$querySettings",
    "$queryStats", "$rankFusion", "$redact", "$replaceRoot", "$replaceWith", "$sample", "$scoreFusion",
    "$search", "$searchMeta", "$set", "$setWindowFields", "$shardedDataDistribution", "$skip", "$sort",
    "$sortByCount", "$unionWith", "$unset", "$unwind", "$vectorSearch",
})  # fmt: skip


def is_stage(name: str) -> bool:
    """Whether there is such a stage, internal ones included."""
    return name in AGGREGATION_STAGES or name.startswith("$_internal")
