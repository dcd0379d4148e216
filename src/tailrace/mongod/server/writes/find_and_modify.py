"""Execute findAndModify: change or remove one document, and return it before or after that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.mongod.language.find_projection import FindProjection, compile_find_projection
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.retries import LoggedWrite, is_numbered
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.server.writes.update import id_of
from tailrace.mongod.store.transactions.sessions import session_key
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

PRE_IMAGE: Final = "preImage"
POST_IMAGE: Final = "postImage"
_OTHER_CHANGE: Final = 40606
_OTHER_IMAGE: Final = 40611


@dataclass(frozen=True, slots=True)
class FindAndModifySpec:
    change: UpdateSpec | DeleteSpec
    returns_new: bool
    projection: Mapping[str, Any] | None
    statement_id: int
    let: Mapping[str, Any] | None
    bypasses_validation: bool
    fills_timestamps: bool
    raw_data: bool

    @property
    def image(self) -> str:
        """Whether the client wants the document before or after the change."""
        return POST_IMAGE if self.returns_new else PRE_IMAGE


@dataclass(frozen=True, slots=True)
class Modified:
    """The document to return, and how it was changed."""

    value: bytes | None
    facts: Mapping[str, Any]
    was_retried: bool = False


def find_and_modify(
    unit: UnitOfWork, context: Context, namespace: Namespace, spec: FindAndModifySpec
) -> Modified:
    """Execute the command on a unit."""
    runner = StatementRunner(
        unit,
        context,
        let=spec.let,
        bypasses_validation=spec.bypasses_validation,
        fills_timestamps=spec.fills_timestamps,
        raw_data=spec.raw_data,
    )
    namespace.check_uuid(unit.catalog)
    projection = _projection(spec, runner)
    retryable = is_numbered(context)
    statement_id = spec.statement_id if retryable else None
    logged = runner.executed_before(statement_id)
    if logged is not None:
        modified = _repeated_result(unit, context, spec, logged)
    elif isinstance(spec.change, DeleteSpec):
        removed = runner.delete(
            namespace, spec.change, statement_id, retry_image=PRE_IMAGE if retryable else None
        )
        modified = Modified(removed.before, {"n": removed.removed})
    else:
        modified = _update(runner, namespace, spec, spec.change, statement_id)
    if modified.value is None or projection is None:
        return modified
    return Modified(projection.apply(modified.value), modified.facts, modified.was_retried)


def _update(
    runner: StatementRunner,
    namespace: Namespace,
    spec: FindAndModifySpec,
    change: UpdateSpec,
    statement_id: int | None,
) -> Modified:
    outcome = runner.update(
        namespace, change, statement_id, retry_image=spec.image if statement_id is not None else None
    )
    if outcome.upserted is not None:
        return _upserted(outcome.upserted, spec)
    value = outcome.after if spec.returns_new else outcome.before
    return Modified(value, {"n": outcome.matched, "updatedExisting": outcome.matched > 0})


def _upserted(document: bytes, spec: FindAndModifySpec) -> Modified:
    facts = {"n": 1, "updatedExisting": False, "upserted": id_of(document)}
    return Modified(document if spec.returns_new else None, facts)


def _projection(spec: FindAndModifySpec, runner: StatementRunner) -> FindProjection | None:
    if not spec.projection:
        return None
    given = spec.change.collation
    collation = None if given is None else Collation.parse(given)
    matcher = compile_match(spec.change.query, variables=runner.variables, collation=collation)
    return compile_find_projection(spec.projection, matcher=matcher, variables=runner.variables)


def _repeated_result(
    unit: UnitOfWork, context: Context, spec: FindAndModifySpec, logged: LoggedWrite
) -> Modified:
    """The result of the first execution, for a command that is sent again."""
    is_removal = isinstance(spec.change, DeleteSpec)
    if logged.inside is None and is_removal != (logged.op == "d"):
        raise CommandError(
            _OTHER_CHANGE,
            "findAndModify retry request is not compatible with previous write in the transaction",
        )
    if logged.op == "i" and logged.inside is None:
        retold = _upserted(logged.o, spec)
        return Modified(retold.value, retold.facts, was_retried=True)
    facts: dict[str, Any] = {"n": 1} if is_removal else {"n": 1, "updatedExisting": True}
    if logged.op == "i" and spec.returns_new:
        # The document came from another shard; the client was sent what was inserted.
        return Modified(logged.o, facts, was_retried=True)
    if logged.retry_image != spec.image:
        raise CommandError(
            _OTHER_IMAGE,
            f"findAndModify retry request asks for the {spec.image}, but the first one for "
            f"{logged.retry_image}",
        )
    return Modified(_kept_image(unit, context, logged), facts, was_retried=True)


def _kept_image(unit: UnitOfWork, context: Context, logged: LoggedWrite) -> bytes:
    assert isinstance(unit, WriteUnit), "a retryable write is in no transaction"
    assert context.lsid is not None, "a retryable write has a session"
    kept = unit.image_record(session_key(logged.inside or context.lsid))
    image = None if kept is None else rawbson.subdocument(kept, b"image")
    if kept is None or image is None or from_timestamp(decode(kept)["ts"]) != logged.ts:
        raise CommandError(
            ErrorCode.IncompleteTransactionHistory,
            "Incomplete history detected: the document of an earlier findAndModify is no longer kept",
        )
    return image
