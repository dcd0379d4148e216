"""Send the statements of a router's command to shards."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson import Int64

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.ownership import ShardOwnership
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.dispatch.internal_calls import TRANSACTION_START_FIELDS, call

_SESSION_FIELDS: Final = (
    "lsid", "txnNumber", "autocommit", "startTransaction", "readConcern", "comment",
    "bypassDocumentValidation",
)  # fmt: skip
"""Sent unchanged with every command; `Form` and `Sender` add statement ids and the time that is left"""


class Sender:
    """Sends the parts of one client's command."""

    def __init__(self, context: RouterContext) -> None:
        self._context = context
        self._router = context.node
        left_out = TRANSACTION_START_FIELDS if context.transaction is not None else ()
        self._session: dict[str, Any] = {
            name: context.command[name]
            for name in _SESSION_FIELDS
            if name in context.command and name not in left_out
        }

    async def send(self, shard: str, form: Form, statements: Sequence[Statement]) -> dict[str, Any]:
        """Run statements on a shard and return its reply."""
        command, sequences = form.command(statements)
        reply = await self.run(shard, command, form.database, sequences)
        cursor = reply.get("cursor")
        if cursor is not None:
            await self._fetch_rest(shard, cursor)
        return reply

    async def _fetch_rest(self, shard: str, cursor: dict[str, Any]) -> None:
        """Fetch the rest of a reply's cursor."""
        database, _, collection = cursor["ns"].partition(".")
        while cursor["id"]:
            command: dict[str, Any] = {"getMore": Int64(cursor["id"]), "collection": collection}
            if self._context.in_transaction:
                command |= self._session
            elif self._context.lsid is not None:
                command["lsid"] = self._session["lsid"]
            reply = await call(self._router.member(shard), command, database)
            cursor["firstBatch"] += reply["cursor"]["nextBatch"]
            cursor["id"] = reply["cursor"]["id"]

    async def run(
        self,
        shard: str,
        command: Mapping[str, Any],
        database: str,
        sequences: Mapping[str, Sequence[bytes]] | None = None,
    ) -> dict[str, Any]:
        """Run a command built by the router on a shard, as part of the client's command."""
        collections = self._router.placement.collections
        ownership = ShardOwnership(collections, shard) if collections else None
        body = {**command, **self._session, **self._time_left()}
        server = self._router.member(shard)
        return await call(server, body, database, sequences, ownership, part_of=self._context)

    def _time_left(self) -> dict[str, int]:
        deadline = self._context.deadline
        return {} if deadline is None else {"maxTimeMS": max(1, int((deadline - time.monotonic()) * 1000))}
