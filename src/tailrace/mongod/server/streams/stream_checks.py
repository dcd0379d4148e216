"""Refuse commands that cannot open a stream, in the order in which a server finds their faults."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.scope import COLLECTIONLESS, Scope
from tailrace.mongod.language.aggregation import PipelineContext, compile_pipeline
from tailrace.mongod.language.aggregation.first_pass import read_stages
from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.reads.requests.stable_api import check_pipeline_is_stable
from tailrace.query.collation import Collation
from tailrace.query.variables import stream_variables

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.node import Node

STAGE: Final = "$changeStream"
_UNSTABLE_OPTIONS: Final = ("showExpandedEvents", "showSystemEvents", "showRawUpdateDescription")
_STREAM_UUID_NOT_ALLOWED: Final = 4928900


def check_stream(context: "Context", place: "Node", request: AggregateRequest) -> Scope:
    """What the stream watches; ``place`` is the node whose events it shows."""
    collation = None if request.collation is None else Collation.parse(request.collation)
    pipeline = PipelineContext(
        context.database,
        request.named,
        stream_variables(request.let),
        collation,
        has_stage=context.node.release.has_stage,
        search_error=context.node.release.search_error,
        read_stream=lambda spec, database, collection: _read(context, place, spec, database, collection),
    )
    if not context.node.release.is_current:
        context.node.release.check_stream({}, request.pipeline)
    read_stages(request.pipeline, pipeline)
    check_pipeline_is_stable(context.command, request.pipeline)
    _check_command(context, request)
    if request.named is not None:
        _check_target(place, f"{context.database}.{request.named}", request)
    compile_pipeline(request.pipeline, pipeline)
    return _scope(context.database, request.named, request.pipeline[0][STAGE])


def _check_command(context: "Context", request: AggregateRequest) -> None:
    if context.in_transaction:
        raise CommandError(
            ErrorCode.OperationNotSupportedInTransaction,
            "$changeStream cannot be used in a multi-document transaction",
        )
    level = context.read_concern.level
    if level not in (None, "majority") or context.read_concern.at_cluster_time is not None:
        raise CommandError(
            ErrorCode.InvalidOptions, f"$changeStream needs the read concern majority, not {level}"
        )
    if request.named == COLLECTIONLESS:
        raise CommandError(ErrorCode.InvalidNamespace, f"{COLLECTIONLESS} is not a collection's name")
    if request.collection_uuid is not None:
        raise CommandError(_STREAM_UUID_NOT_ALLOWED, "a change stream takes no collectionUUID")


def _check_target(place: "Node", ns: str, request: AggregateRequest) -> None:
    """Refuse streams on views and on time series."""
    kind = place.collection_type(ns)
    if kind == "view":
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"$changeStream cannot watch the view {ns}")
    if kind == "timeseries" and not request.raw_data:
        raise CommandError(
            ErrorCode.CommandNotSupportedOnView, f"$changeStream cannot watch the time series {ns}"
        )


def _read(context: "Context", place: "Node", spec: Any, database: str, collection: str | None) -> None:
    """Check the specification of a stream at any place of a pipeline."""
    context.node.release.check_stream(spec, ())
    scope = _scope(database, collection, spec)
    ChangeStreamOptions.parse(
        spec,
        scope,
        on_router=place.is_router,
        is_replica_set=place.is_replicated,
        release=context.node.release.stream,
    )
    if context.command.get("apiStrict") is True:
        for option in _UNSTABLE_OPTIONS:
            if option in spec:
                raise CommandError(
                    ErrorCode.APIStrictError, f"the $changeStream option {option} is not in API Version 1"
                )


def _scope(database: str, collection: str | None, spec: Mapping[str, Any]) -> Scope:
    return Scope.of(database, collection, all_changes_for_cluster=spec.get("allChangesForCluster") is True)
