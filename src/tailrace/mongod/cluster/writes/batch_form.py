"""The form of insert, update and delete: statements for one collection, counted together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.execution import execute
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.statement import Statement, Work
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.writes.batch import read_statement_ids
from tailrace.mongod.server.writes.jobs import WriteErrors
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.update import id_of

_ERROR_FIELDS: Final = frozenset({"index", "code", "errmsg"})


class BatchForm(Form):
    query = "q"

    def __init__(
        self,
        context: RouterContext,
        field: str,
        read: Callable[[dict[str, Any]], UpdateSpec | DeleteSpec] | None = None,
    ) -> None:
        """``field`` has the statements; ``read`` parses one, unless they are documents to insert."""
        super().__init__(context, field)
        self._field = field
        self._read = read
        self._counts_modified = context.entry.name == "update"
        self._found = 0
        self._modified = 0
        self._upserted: list[dict[str, Any]] = []
        self._retried: list[int] = []
        self._errors: dict[int, CommandError] = {}

    def read(self, statement: Statement) -> Work:
        return statement.raw if self._read is None else self._read(decode(statement.raw))

    def command(
        self, statements: Sequence[Statement]
    ) -> tuple[dict[str, Any], Mapping[str, Sequence[bytes]]]:
        return self._options_with_ids(statements), {self._field: [statement.raw for statement in statements]}

    def add(self, statements: Sequence[Statement], reply: Mapping[str, Any]) -> list[Statement]:
        self._found += reply["n"]
        self._modified += reply.get("nModified", 0)
        for upserted in reply.get("upserted", ()):
            self._upserted.append({**upserted, "index": statements[upserted["index"]].index})
        self._retried += reply.get("retriedStmtIds", ())
        self._note_concern(reply)
        moving = []
        for failed in reply.get("writeErrors", ()):
            statement = statements[failed["index"]]
            if failed["code"] == ErrorCode.WouldChangeOwningShard:
                moving.append(statement)
                continue
            error = CommandError(failed["code"], failed["errmsg"])
            error.details = {name: value for name, value in failed.items() if name not in _ERROR_FIELDS}
            self.fail(statement, error)
        return moving

    def fail(self, statement: Statement, error: CommandError) -> None:
        """See `Form`; a failure on several shards is reported once."""
        self._errors.setdefault(statement.index, error)

    @property
    def has_errors(self) -> bool:
        return bool(self._errors)

    def has_found(self, reply: Mapping[str, Any]) -> bool:
        return bool(reply["n"]) or "writeErrors" in reply

    def updated(self, before: bytes, after: bytes) -> dict[str, Any]:  # noqa: ARG002 - not in the reply
        return {"n": 1, "nModified": 1}

    def upserted(self, document: bytes) -> dict[str, Any]:
        return {"n": 1, "upserted": [{"index": 0, "_id": id_of(document)}]}

    def reply(self) -> dict[str, Any]:
        """The reply to the client's command."""
        reply: dict[str, Any] = {"n": self._found}
        if self._upserted:
            reply["upserted"] = sorted(self._upserted, key=lambda upserted: int(upserted["index"]))
        if self._counts_modified:
            reply["nModified"] = self._modified
        errors = WriteErrors()
        for index in sorted(self._errors):
            errors.add(index, self._errors[index])
        errors.into(reply)
        if self._retried:
            reply["retriedStmtIds"] = sorted(self._retried)
        return {**reply, **self.write_concern_error}


async def run_batch(context: RouterContext, form: BatchForm, documents: Sequence[bytes]) -> Reply:
    """Run the statements of an insert, update or delete on the collection that the command names."""
    ns = f"{context.database}.{context.collection_name()}"
    arguments = context.arguments()
    ids = read_statement_ids(context, arguments, len(documents))
    statements = [
        Statement(index, ns, raw, ids[index] if ids else None) for index, raw in enumerate(documents)
    ]
    await execute(context, form, statements, ordered=arguments.boolean("ordered", True))
    return form.reply()
