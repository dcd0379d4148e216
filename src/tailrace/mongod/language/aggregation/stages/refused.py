"""Stages that MongoDB has but that cannot run here; each has its own error."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.operands import type_name


def refuse_internal(name: str, _spec: Any, _scope: StageScope) -> NoReturn:
    """A stage that only servers send; the first pass refuses those of clients."""
    raise CommandError(ErrorCode.CommandNotSupported, f"the stage {name} is not supported")


def check_search(name: str, _spec: Any, context: PipelineContext) -> NoReturn:
    """Full-text and vector search, which MongoDB without a search process refuses, too."""
    raise CommandError(context.search_error, f"{name} is not enabled: there is no search process to ask")


def check_query_stats(name: str, spec: Any, _context: PipelineContext) -> None:
    if not isinstance(spec, Mapping):
        raise CommandError(ErrorCode.FailedToParse, f"{name} value must be an object")


class Faults(NamedTuple):
    """The codes of a stage's faulty specifications; 0 for none."""

    not_object: int
    empty: int = 0


FAULTS: Final[Mapping[str, Faults]] = {
    "$geoNear": Faults(10065, 5860400),
    "$listCatalog": Faults(6200600),
    "$shardedDataDistribution": Faults(6789100, 6789101),
    "$_internalAllCollectionStats": Faults(6789103),
    "$_internalApplyOplogUpdate": Faults(6315901, ErrorCode.IDLFailedToParse),
    "$_internalBoundedSort": Faults(6369905, 6369904),
    "$_internalComputeGeoNearDistance": Faults(10065, 5874500),
    "$_internalConvertBucketIndexStats": Faults(5480000, 5480004),
    "$_internalSetWindowFields": Faults(ErrorCode.FailedToParse, ErrorCode.IDLFailedToParse),
    "$_internalShardServerInfo": Faults(ErrorCode.TypeMismatch),
    "$_internalSplitPipeline": Faults(ErrorCode.TypeMismatch),
    "$_internalStreamingGroup": Faults(15947, 15955),
    "$_internalUnpackBucket": Faults(5346500, 5346508),
    "$_unpackBucket": Faults(5612400, 5612405),
}
_NEEDS_ADMIN: Final = {"$queryStats": 0, "$_internalAllCollectionStats": 6789104}
"""Stages of the database admin, with the code elsewhere, or 0 for InvalidNamespace"""


def compile_refused(name: str, spec: Any, scope: StageScope) -> Stage:
    """A stage whose specification is checked and that then fails when it runs."""
    faults = FAULTS.get(name, Faults(0))
    if faults.not_object and not isinstance(spec, Mapping):
        raise CommandError(
            faults.not_object, f"{name} must take a nested object but found: {type_name(spec)}"
        )
    if faults.empty and not spec:
        raise CommandError(faults.empty, f"{name} lacks a required field")
    context = scope.context
    if name in _NEEDS_ADMIN and (context.database != "admin" or context.collection is not None):
        code = _NEEDS_ADMIN[name] or ErrorCode.InvalidNamespace
        raise CommandError(code, f"{name} must be run against the 'admin' database with {{aggregate: 1}}")
    if name == "$listCatalog" and context.database != "admin" and context.collection is None:
        raise CommandError(ErrorCode.InvalidNamespace, f"{name} without a collection is for admin")
    if name == "$listCachedAndActiveUsers" and context.collection is not None:
        raise CommandError(ErrorCode.InvalidNamespace, f"{name} must be run with {{aggregate: 1}}")

    def run(_rows: Rows) -> NoReturn:
        if name == "$geoNear":
            raise CommandError(
                ErrorCode.IndexNotFound,
                f"{name} is not supported: no index of a 2d or 2dsphere kind is searched",
            )
        raise CommandError(ErrorCode.CommandNotSupported, f"the stage {name} is not supported")

    return run
