"""First stages that show the server's own state: operations, sessions, statistics."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import checked_object
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.operands import type_name

_NO_OBJECT: Final = {
    "$collStats": 5447000, "$currentOp": ErrorCode.TypeMismatch, "$listLocalSessions": ErrorCode.TypeMismatch,
    "$listSessions": ErrorCode.TypeMismatch,
}  # fmt: skip
_OPTIONS: Final = {
    "$collStats": frozenset(
        {"latencyStats", "storageStats", "count", "queryExecStats", "operationStats", "targetAllNodes"}
    ),
    "$listLocalSessions": frozenset({"users", "allUsers"}),
    "$listSessions": frozenset({"users", "allUsers"}),
}
_EMPTY: Final = {"$indexStats": 28803, "$planCacheStats": ErrorCode.FailedToParse}
"""Stages without options"""


def check_server_state(name: str, spec: Any, _context: PipelineContext) -> None:
    code = _NO_OBJECT.get(name)
    if code is not None and not isinstance(spec, Mapping):
        raise CommandError(code, f"{name} must take a nested object but found: {type_name(spec)}")
    for option in spec if name in _OPTIONS else ():
        if option not in _OPTIONS[name]:
            raise CommandError(
                ErrorCode.IDLUnknownField, f"BSON field '{name}.{option}' is an unknown field."
            )
        if name == "$collStats" and option != "targetAllNodes":
            checked_object(f"{name}.{option}", spec[option])


def compile_server_state(name: str, spec: Any, scope: StageScope) -> Stage:
    """A stage whose documents are supplied by `Services.source`."""
    context = scope.context
    _check_namespace(name, context)
    if name in _EMPTY and (not isinstance(spec, Mapping) or spec):
        raise CommandError(_EMPTY[name], f"{name} takes an empty object")

    def run(_rows: Rows) -> Rows:
        for document in scope.services.source(name, spec, context.database, context.collection):
            yield document if document is PAUSE else Row(document)

    return run


def _check_namespace(name: str, context: PipelineContext) -> None:
    """Where a stage may be, whatever its place in the pipeline."""
    needed = None
    if name == "$currentOp" and (context.database != "admin" or context.collection is not None):
        needed = "the 'admin' database with {aggregate: 1}"
    elif name == "$listSessions" and (context.database, context.collection) != ("config", "system.sessions"):
        needed = "config.system.sessions"
    elif name == "$listLocalSessions" and context.collection is not None:
        needed = "a database with {aggregate: 1}"
    if needed is not None:
        raise CommandError(ErrorCode.InvalidNamespace, f"{name} must be run against {needed}")
