"""The form of findAndModify: one statement, whose reply is the shard's."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.find_target import variables_of
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.statement import Statement, Work
from tailrace.mongod.language.find_projection import compile_find_projection
from tailrace.mongod.server.commands.crud.find_and_modify import read_change
from tailrace.mongod.server.writes.update import id_of
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

_REPLY_FIELDS: Final = ("lastErrorObject", "value", "retriedStmtId")


class FindAndModifyForm(Form):
    query = "query"

    def __init__(self, context: RouterContext) -> None:
        super().__init__(context)
        self._context = context
        self._reply: dict[str, Any] = {}
        self.spec = read_change(context.arguments())
        """The parsed command"""
        self.returns_new = self.spec.returns_new

    def read(self, statement: Statement) -> Work:  # noqa: ARG002 - there is one
        return self.spec.change

    def command(
        self, statements: Sequence[Statement]
    ) -> tuple[dict[str, Any], Mapping[str, Sequence[bytes]]]:
        (statement,) = statements
        command = decode(statement.raw)
        return command if statement.id is None else {**command, "stmtId": statement.id}, {}

    def add(self, statements: Sequence[Statement], reply: Mapping[str, Any]) -> list[Statement]:  # noqa: ARG002
        """See `Form`; a shard refuses a statement with an error, so none are returned."""
        self._reply = {name: reply[name] for name in _REPLY_FIELDS if name in reply}
        self._note_concern(reply)
        return []

    def fail(self, statement: Statement, error: CommandError) -> None:  # noqa: ARG002
        """Raise the error: the statement is the whole command."""
        raise error

    @property
    def has_errors(self) -> bool:
        return False

    def has_found(self, reply: Mapping[str, Any]) -> bool:
        return bool(reply["lastErrorObject"]["n"])

    def updated(self, before: bytes, after: bytes) -> dict[str, Any]:
        value = self._projected(after if self.returns_new else before)
        return {"lastErrorObject": {"n": 1, "updatedExisting": True}, "value": value}

    def upserted(self, document: bytes) -> dict[str, Any]:
        facts = {"n": 1, "updatedExisting": False, "upserted": id_of(document)}
        return {"lastErrorObject": facts, "value": self._projected(document) if self.returns_new else None}

    def removal(self, statement: Statement, collection: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """See `Form`; the shard stores the document, to return it again in a retry."""
        if statement.id is None or self.returns_new:
            return super().removal(statement, collection, key)
        return {"findAndModify": collection, "query": key, "remove": True, "stmtId": statement.id}

    def reply(self) -> dict[str, Any]:
        """The reply to the client's command."""
        return {**self._reply, **self.write_concern_error}

    def _projected(self, document: bytes) -> dict[str, Any]:
        projection = self.spec.projection
        if not projection:
            return decode(document)
        change = self.spec.change
        collation = None if change.collation is None else Collation.parse(change.collation)
        variables = variables_of(self._context)
        matcher = compile_match(change.query, variables=variables, collation=collation)
        shown = compile_find_projection(projection, matcher=matcher, variables=variables)
        return decode(shown.apply(document))
