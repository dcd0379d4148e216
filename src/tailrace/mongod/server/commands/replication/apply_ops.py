"""`applyOps`: apply operations as the oplog has them."""

import copy
from collections.abc import Sequence
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import NOBODY, Rights, right, text_of
from tailrace.mongod.server.access.privileges import CLUSTER, namespace
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.apply_ops.operations import check_operations
from tailrace.mongod.server.writes.apply_ops.run import Application, OperationFailedError, Options
from tailrace.query.match import compile_match

_MODES: Final = ("InitialSync", "Recovering", "Secondary", "ApplyOps")
_NO_OBJECT: Final = 10065


async def run(context: MemberContext) -> Reply:
    """The reply counts the operations that were tried, the one that failed included."""
    check_operations(context.command[context.name])
    arguments = context.arguments()
    options, conditions = _options(arguments)
    for condition in conditions:
        failure = _failed_condition(context, condition)
        if failure is not None:
            return failure
    try:
        results = await Application(context, context.database, context.command, options).run()
    except OperationFailedError as failed:
        error = failed.error
        return {
            "applied": len(failed.results),
            "code": error.code,
            "codeName": error.code_name,
            "errmsg": error.message,
            "results": failed.results,
            "ok": 0.0,
            **error.details,
        }
    return {"applied": len(results), "results": results}


def _options(arguments: Arguments) -> tuple[Options, Sequence[dict[str, Any]]]:
    mode = arguments.value("oplogApplicationMode", "ApplyOps")
    if not is_string(mode):
        reason = f'"oplogApplicationMode" had the wrong type. Expected string, found {type_name(mode)}'
        raise CommandError(ErrorCode.TypeMismatch, reason)
    if mode not in _MODES:
        raise CommandError(ErrorCode.FailedToParse, f"Invalid oplog application mode provided: {mode}")
    conditions = arguments.array("preCondition", [])
    for number, condition in enumerate(conditions):
        if not isinstance(condition, dict):
            raise arguments.wrong_type(f"preCondition.{number}", condition, "object")
    options = Options(
        allow_atomic=arguments.boolean("allowAtomic", True, strict=True),
        always_upsert=arguments.boolean("alwaysUpsert", True, strict=True),
        bypasses_validation=arguments.boolean("bypassDocumentValidation", False),
    )
    return options, conditions


def _failed_condition(context: MemberContext, condition: dict[str, Any]) -> Reply | None:
    """The reply if a document is not as it must be."""
    ns = condition.get("ns")
    if not is_string(ns):
        reason = f"ns in preCondition must be a string, but found type: {type_name(ns)}"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    for field in ("q", "res"):
        if not isinstance(condition.get(field), dict):
            raise CommandError(_NO_OBJECT, f"invalid parameter: expected an object ({field})")
    is_wanted, is_right = compile_match(condition["q"]), compile_match(condition["res"])
    with context.reader() as reader:
        collection = reader.catalog.collection(ns)
        if collection is None:
            raise CommandError(ErrorCode.NamespaceNotFound, f"collection in ns does not exist: {ns}")
        documents = (decode(raw) for _, raw in reader.records(collection))
        found: dict[str, Any] = next((document for document in documents if is_wanted(document)), {})
    if is_right(found):
        return None
    return {
        "got": found,
        "whatFailed": condition,
        "ok": 0.0,
        "errmsg": "preCondition failed",
        "code": int(ErrorCode.BadValue),
        "codeName": ErrorCode.BadValue.name,
    }


_ACTIONS: Final = {"i": ("insert",), "u": ("update", "insert"), "d": ("remove",)}


def _needs(context: MemberContext) -> Rights:
    """The right on each namespace, as for single commands; commands inside need the right to everything."""
    yield right(CLUSTER, "applyOps")
    operations = context.command.get(context.name)
    if not operations:
        yield NOBODY  # as on a real server
    for operation in operations if isinstance(operations, list) else ():
        if not isinstance(operation, dict):
            continue
        if "ui" in operation:
            yield right(CLUSTER, "useUUID")
        kind = text_of(operation.get("op"))
        database, _, collection = text_of(operation.get("ns")).partition(".")
        if kind in _ACTIONS:
            yield right(namespace(database, collection), *_ACTIONS[kind])
        elif kind == "n":
            yield right(CLUSTER, "appendOplogNote")
        elif kind == "c":
            yield from _command_needs(context, database, operation.get("o"))


def _command_needs(context: MemberContext, database: str, body: Any) -> Rights:
    """The rights of a command that an operation contains."""
    name = next(iter(body), "") if isinstance(body, dict) else ""
    entry = context.node.commands.get(name)
    if entry is None or entry.needs is None:
        yield right(CLUSTER, "internal")
        return
    inner = copy.copy(context)
    inner.name, inner.entry, inner.command, inner.database = name, entry, body, database
    yield from entry.needs(inner)


COMMAND = Command(
    "applyOps", run, needs=_needs, help="Apply operations as the oplog has them.", is_write=True
)
