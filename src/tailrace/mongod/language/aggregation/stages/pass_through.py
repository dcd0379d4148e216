"""Stages that pass every document on as it is: those of MongoDB's own tests, and those of change streams.

The pipeline of a stream is compiled only to be checked; its events are read elsewhere.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.operands import type_name

_NO_OBJECT: Final = {
    "$changeStream": 6188500,
    "$changeStreamSplitLargeEvent": 7182899,
    "$_internalInhibitOptimization": ErrorCode.TypeMismatch,
    "$_internalShredDocuments": 7997500,
}


def check_stream_stage(name: str, spec: Any, _context: PipelineContext) -> None:
    if not isinstance(spec, Mapping):
        raise CommandError(_NO_OBJECT[name], f"{name} must take a nested object but found {type_name(spec)}")


def compile_change_stream(_name: str, spec: Any, scope: StageScope) -> Stage:
    context = scope.context
    context.read_stream(spec, context.database, context.collection)
    return _unchanged


def compile_split_large_event(name: str, spec: Any, _scope: StageScope) -> Stage:
    if spec:
        raise CommandError(7182800, f"{name} spec should be an empty object")
    return _unchanged


def compile_identity(name: str, spec: Any, scope: StageScope) -> Stage:
    check_stream_stage(name, spec, scope.context)
    if spec and name == "$_internalInhibitOptimization":
        raise CommandError(ErrorCode.FailedToParse, f"{name} takes an empty object")
    return _unchanged


def _unchanged(rows: Rows) -> Rows:
    return rows
