"""The names of MongoDB's aggregation stages.

A stage that a pipeline may not use and a name that is not a stage have different errors.
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
    """Whether a stage has this name; internal stages are included."""
    return name in AGGREGATION_STAGES or name.startswith("$_internal")
