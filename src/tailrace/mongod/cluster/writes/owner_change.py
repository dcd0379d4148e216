"""Run an update that makes another shard the owner of its document, in a transaction.

The statement is run again, as the only one of a transaction on this router. The document is deleted on one
shard and inserted on the other. The transaction belongs to an internal session of the client's session, and
its operations have the statement's id: a shard recognises by it that the statement was executed.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Final

from bson import Binary, Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.server.sessions.transactions import has_write_errors
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT

_UNKNOWN_RESULT: Final = "UnknownTransactionCommitResult"
_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.2


async def change_owner(context: RouterContext, form: Form, statement: Statement) -> None:
    """Run a statement in a transaction, which is retried as long as it fails with a transient error."""
    pause = _PAUSE_SECONDS
    while True:
        context.check_deadline()
        lsid = _inner_session(context)
        try:
            reply = await _transact(context, form, statement, lsid)
        except CommandError as error:
            if context.node.replication.is_shutting_down:
                raise
            if TRANSIENT not in error.labels:
                form.fail(statement, error)
                return
        else:
            form.add([statement], reply)
            return
        finally:
            for node in (context.node, *context.node.shards.values()):
                node.sessions.end(encode(lsid))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


async def _transact(
    context: RouterContext, form: Form, statement: Statement, lsid: Mapping[str, Any]
) -> dict[str, Any]:
    session = {"lsid": lsid, "txnNumber": Int64(0), "autocommit": False}
    command, sequences = form.command([statement])
    body = {**command, **session, "startTransaction": True}
    reply = await call(context.node, body, form.database, sequences)
    while not has_write_errors(reply):
        try:
            await call(context.node, {"commitTransaction": 1, **session}, "admin")
        except CommandError as error:
            if _UNKNOWN_RESULT not in error.labels or TRANSIENT in error.labels:
                raise
            context.check_deadline()
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        break
    return reply


def _inner_session(context: RouterContext) -> dict[str, Any]:
    """The id of a new internal session of the client's session."""
    assert context.lsid is not None, "a retryable write has a session"
    identity = Binary(uuid.uuid4().bytes, 4)
    return {**decode(context.lsid), "txnNumber": Int64(context.txn_number or 0), "txnUUID": identity}
