"""Aggregation pipelines, compiled to iterators of documents.

>>> from tailrace.bson.documents import decode, encode
>>> stages = [{"$group": {"_id": "$k", "n": {"$sum": 1}}}, {"$sort": {"n": -1}}, {"$limit": 1}]
>>> pipeline = compile_pipeline(stages, PipelineContext("shop", "orders"))
>>> [decode(raw) for raw in pipeline.run(encode({"k": key}) for key in "abbac")]
[{'_id': 'a', 'n': 2}]

`compile` checks and compiles a pipeline, `stage_table` lists the stages, `rows` defines what flows through
them, `services` what they may ask of the server. `stages`, `joins` and `output` have a file for each stage,
`accumulators` and `windows` a file for each family of functions.

=============  ==========================================================================================
one document   ``$match $project $addFields $set $unset $replaceRoot $replaceWith $redact $unwind``
of many        ``$group $sort $limit $skip $count $sortByCount $bucket $bucketAuto $sample $facet``
in sequence    ``$setWindowFields $densify $fill``
collections    ``$lookup $graphLookup $unionWith``, read through `Services`
sources        ``$documents``; ``$collStats $currentOp $indexStats $listLocalSessions $listSessions
               $planCacheStats``, whose documents the caller supplies
output         ``$out $merge``, described by `Pipeline.output` and written by the caller
refused        ``$changeStream``, which the caller opens; ``$geoNear`` and the search stages
=============  ==========================================================================================

All accumulators but ``$accumulator`` and all window functions but ``$minMaxScaler`` are supported. `memory`
limits what stages hold: above 100 MB they store rows in a file or fail, as in MongoDB.
"""

from tailrace.mongod.language.aggregation.compile import LeadingMatch, compile_pipeline, leading_match
from tailrace.mongod.language.aggregation.output import MergeTarget, Output, OutTarget
from tailrace.mongod.language.aggregation.pipeline import Pipeline
from tailrace.mongod.language.aggregation.rows import PAUSE, Pause
from tailrace.mongod.language.aggregation.scope import PipelineContext
from tailrace.mongod.language.aggregation.services import NoServices, Services

__all__ = [
    "PAUSE",
    "LeadingMatch",
    "MergeTarget",
    "NoServices",
    "OutTarget",
    "Output",
    "Pause",
    "Pipeline",
    "PipelineContext",
    "Services",
    "compile_pipeline",
    "leading_match",
]
