"""Refuse options and stages of reads that are not in the Stable API, for clients with `apiStrict`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_UNSTABLE_FIND_OPTIONS: Final = (
    "awaitData", "max", "min", "noCursorTimeout", "oplogReplay", "readOnce", "returnKey", "showRecordId",
    "tailable", "term",
)  # fmt: skip
_UNSTABLE_STAGES: Final = frozenset(
    {
        "$changeStreamSplitLargeEvent", "$currentOp", "$fill", "$indexStats", "$listCachedAndActiveUsers",
        "$listCatalog", "$listLocalSessions", "$listSearchIndexes", "$listSessions", "$operationMetrics",
        "$planCacheStats", "$queryStats", "$search", "$searchMeta", "$vectorSearch",
        "$_internalAllCollectionStats", "$_internalApplyOplogUpdate", "$_internalBoundedSort",
        "$_internalComputeGeoNearDistance", "$_internalConvertBucketIndexStats",
        "$_internalInhibitOptimization", "$_internalShardServerInfo", "$_internalShredDocuments",
        "$_internalSplitPipeline",
    }
)  # fmt: skip
_UNSTABLE_STATISTICS: Final = ("latencyStats", "storageStats", "queryExecStats")


def check_find_is_stable(command: Mapping[str, Any]) -> None:
    """Refuse options of `find` that are not in the Stable API."""
    if command.get("apiStrict") is not True:
        return
    for name in _UNSTABLE_FIND_OPTIONS:
        if name in command:
            reason = f"BSON field 'find.{name}' is not allowed with apiStrict:true."
            raise CommandError(ErrorCode.APIStrictError, reason)


def check_pipeline_is_stable(command: Mapping[str, Any], pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse stages that are not in the Stable API, also nested ones."""
    if command.get("apiStrict") is True:
        _check_stages(pipeline)


def _check_stages(pipeline: Sequence[Any]) -> None:
    for stage in pipeline:
        for name, spec in stage.items() if isinstance(stage, Mapping) else ():
            unstable = name in _UNSTABLE_STAGES
            if isinstance(spec, Mapping):
                unstable |= name == "$collStats" and any(option in spec for option in _UNSTABLE_STATISTICS)
                for inner in spec.values() if name == "$facet" else [spec.get("pipeline")]:
                    _check_stages(inner if isinstance(inner, list) else ())
            if unstable:
                reason = f"stage {name} is not allowed with 'apiStrict: true' in API Version 1"
                raise CommandError(ErrorCode.APIStrictError, reason)
