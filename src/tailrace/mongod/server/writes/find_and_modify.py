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
from tailrace.mongod.server.writes.evaluations import once
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.retries import LoggedWrite, is_numbered
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.server.writes.targets import statement_collation
from tailrace.mongod.server.writes.update import id_of
from tailrace.mongod.store.transactions.sessions import session_key
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.query.match import compile_match

PRE_IMAGE: Final = "preImage"
POST_IMAGE: Final = "postImage"
_OTHER_THAN_DELETE: Final = 40606
_NO_PRE_IMAGE: Final = 40607
_OTHER_THAN_INSERT: Final = 40608
_NO_POST_IMAGE_OF_UPDATE: Final = 40611
_NO_PRE_IMAGE_OF_UPDATE: Final = 40612


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
    namespace.check_writable(unit)
    namespace.check_uuid(unit.catalog)
    projection = _projection(unit, namespace, spec, runner)
    retryable = is_numbered(context)
    statement_id = spec.statement_id if retryable else None
    logged = runner.executed_before(statement_id)
    if logged is not None:
        modified = _repeated_result(unit, context, spec, logged)
    elif isinstance(spec.change, DeleteSpec):
        removed = runner.delete(
            namespace,
            spec.change,
            statement_id,
            retry_image=PRE_IMAGE if retryable else None,
            in_find_and_modify=True,
        )
        modified = Modified(removed.before, {"n": removed.removed})
    else:
        modified = _update(runner, namespace, spec, spec.change, statement_id)
    # A server does not project the image that it kept for a retry.
    if modified.value is None or projection is None or modified.was_retried:
        return modified
    found = modified.value
    key = ("projected", id(spec), found)
    return Modified(once(context, key, lambda: projection.apply(found), 2 * len(found)), modified.facts)


def _update(
    runner: StatementRunner,
    namespace: Namespace,
    spec: FindAndModifySpec,
    change: UpdateSpec,
    statement_id: int | None,
) -> Modified:
    outcome = runner.update(
        namespace,
        change,
        statement_id,
        retry_image=spec.image if statement_id is not None else None,
        creates_first=False,
    )
    if outcome.upserted is not None:
        return _upserted(outcome.upserted, spec)
    value = outcome.after if spec.returns_new else outcome.before
    return Modified(value, {"n": outcome.matched, "updatedExisting": outcome.matched > 0})


def _upserted(document: bytes, spec: FindAndModifySpec) -> Modified:
    facts = {"n": 1, "updatedExisting": False, "upserted": id_of(document)}
    return Modified(document if spec.returns_new else None, facts)


def _projection(
    unit: UnitOfWork, namespace: Namespace, spec: FindAndModifySpec, runner: StatementRunner
) -> FindProjection | None:
    collection = unit.catalog.collection(str(namespace))
    upserts = isinstance(spec.change, UpdateSpec) and spec.change.upsert
    if not spec.projection or (collection is None and not upserts):
        return None
    collation = statement_collation(spec.change.collation, collection)
    matcher = compile_match(spec.change.query, variables=runner.variables, collation=collation)
    return compile_find_projection(spec.projection, matcher=matcher, variables=runner.variables)


def _repeated_result(
    unit: UnitOfWork, context: Context, spec: FindAndModifySpec, logged: LoggedWrite
) -> Modified:
    """The result of the first execution, for a command that is sent again."""
    is_removal = isinstance(spec.change, DeleteSpec)
    if logged.inside is None:
        _check_repeated(spec, logged)
        if logged.op == "i":
            retold = _upserted(logged.o, spec)
            return Modified(retold.value, retold.facts, was_retried=True)
        is_removal = logged.op == "d"
    facts: dict[str, Any] = {"n": 1} if is_removal else {"n": 1, "updatedExisting": True}
    if logged.op == "i" and spec.returns_new:
        # The document came from another shard; the client was sent what was inserted.
        return Modified(logged.o, facts, was_retried=True)
    return Modified(_kept_image(unit, context, logged), facts, was_retried=True)


def _check_repeated(spec: FindAndModifySpec, logged: LoggedWrite) -> None:
    """Refuse a command that cannot be the one that was logged, or whose image was not kept.

    As on a server, which image was kept is not compared with the one that is wanted.
    """
    wants_upsert = isinstance(spec.change, UpdateSpec) and spec.change.upsert
    problem = "is not compatible with previous write in the transaction of type: " + logged.op
    code = None
    if logged.op == "d" and not isinstance(spec.change, DeleteSpec):
        code = _OTHER_THAN_DELETE
    elif logged.op == "i" and not wants_upsert:
        code = _OTHER_THAN_INSERT
    elif logged.op == "d" and logged.retry_image is None:
        code, problem = _NO_PRE_IMAGE, "has no pre-image available"
    elif logged.op == "u" and logged.retry_image is None:
        code = _NO_POST_IMAGE_OF_UPDATE if spec.returns_new else _NO_PRE_IMAGE_OF_UPDATE
        wanted, stored = ("after", "before") if spec.returns_new else ("before", "after")
        problem = f"wants the document {wanted} update returned, but only {stored} update document is stored"
    if code is not None:
        raise CommandError(code, f"findAndModify retry request {problem}")


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
