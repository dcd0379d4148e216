"""The form of bulkWrite: statements for several collections, each with its own result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.statement import Statement, Work
from tailrace.mongod.server.reads.listing import results_reply
from tailrace.mongod.server.writes.bulk import BulkOperation
from tailrace.mongod.server.writes.specs import UpdateSpec
from tailrace.mongod.server.writes.update import id_of

_NAMESPACE: Final = "admin.$cmd.bulkWrite"
_COUNTERS: Final = ("nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")


class BulkForm(Form):
    query = "filter"

    def __init__(self, context: RouterContext, operations: Sequence[BulkOperation]) -> None:
        super().__init__(context, "ops", "nsInfo", "cursor")
        self._context = context
        self._operations = operations
        self._namespaces = context.documents("nsInfo")
        self._errors_only = bool(self.options.get("errorsOnly"))
        self._sums: Counter[str] = Counter()
        self._results: dict[int, dict[str, Any]] = {}
        self._failed: set[int] = set()
        self._retried: list[int] = []

    def read(self, statement: Statement) -> Work:
        return self._operations[statement.index].work

    def command(
        self, statements: Sequence[Statement]
    ) -> tuple[dict[str, Any], Mapping[str, Sequence[bytes]]]:
        return self._options_with_ids(statements), {
            "ops": [statement.raw for statement in statements],
            "nsInfo": self._namespaces,
        }

    def add(self, statements: Sequence[Statement], reply: Mapping[str, Any]) -> list[Statement]:
        self._sums.update({name: reply.get(name, 0) for name in _COUNTERS})
        self._retried += reply.get("retriedStmtIds", ())
        self._note_concern(reply)
        moving = []
        for result in reply["cursor"]["firstBatch"]:
            statement = statements[result["idx"]]
            if result.get("code") == ErrorCode.WouldChangeOwningShard:
                moving.append(statement)
            else:
                self._note({**result, "idx": statement.index})
        return moving

    def _note(self, result: dict[str, Any]) -> None:
        """Store the result of a statement on one shard; it has failed if it fails on any shard."""
        index = result["idx"]
        known = self._results.get(index)
        if not result["ok"]:
            self._failed.add(index)
        if known is None or (known["ok"] and not result["ok"]):
            self._results[index] = result
        elif known["ok"]:
            for name in ("n", "nModified"):
                if name in known:
                    known[name] += result[name]

    def fail(self, statement: Statement, error: CommandError) -> None:
        result: dict[str, Any] = {"ok": 0.0, "idx": statement.index, "code": error.code, **error.details}
        result |= {"errmsg": error.message, "n": 0}
        self._note(result | ({"nModified": 0} if isinstance(self.read(statement), UpdateSpec) else {}))

    @property
    def has_errors(self) -> bool:
        return bool(self._failed)

    def has_found(self, reply: Mapping[str, Any]) -> bool:
        return any(reply[name] for name in ("nErrors", *_COUNTERS))

    def updated(self, before: bytes, after: bytes) -> dict[str, Any]:  # noqa: ARG002 - not in the reply
        return {"nMatched": 1, "nModified": 1, **self._only({"n": 1, "nModified": 1})}

    def upserted(self, document: bytes) -> dict[str, Any]:
        result = {"n": 1, "nModified": 0, "upserted": {"_id": id_of(document)}}
        return {"nUpserted": 1, **self._only(result)}

    def insertion(self, statement: Statement, document: bytes) -> bytes:
        rest = rawbson.body(rawbson.without(statement.raw, (b"document",)))
        return rawbson.document(rest, rawbson.element(rawbson.DOCUMENT, b"document", document))

    def _only(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A cursor with the result of one statement."""
        batch = [] if self._errors_only else [{"ok": 1.0, "idx": 0, **result}]
        return {"cursor": {"firstBatch": batch}}

    def reply(self, size: int | None) -> bytes:
        """The reply to the client's command; ``size`` is that of the first batch."""
        results = [encode(self._results[index]) for index in sorted(self._results)]
        cursor = results_reply(self._context, _NAMESPACE, results, size)
        sums: dict[str, Any] = {"nErrors": len(self._failed)}
        sums |= {name: self._sums[name] for name in _COUNTERS}
        if self._retried:
            sums["retriedStmtIds"] = sorted(self._retried)
        return rawbson.document(
            rawbson.body(cursor), rawbson.body(encode({**sums, **self.write_concern_error}))
        )
