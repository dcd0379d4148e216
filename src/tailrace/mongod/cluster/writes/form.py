"""The differences between write commands: how statements are sent, and how replies are combined.

All commands that write handle their statements in the same way. A `Form` builds a command from some of the
statements, and combines the replies of shards to the reply of the client's command.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.statement import Statement, Work

_NOT_FORWARDED: Final = frozenset(
    {
        "lsid", "txnNumber", "autocommit", "startTransaction", "stmtId", "stmtIds", "readConcern",
        "writeConcern", "maxTimeMS", "$db", "$clusterTime", "$readPreference", "recoveryToken",
    }
)  # fmt: skip
"""Fields of a client's command that the router handles, or sends to shards in another form"""


class Form(ABC):
    """One running command: its form, and its results so far."""

    query: str = ""
    """The field with a statement's filter"""
    returns_new = False
    """Whether the reply has the document after the change"""

    def __init__(self, context: RouterContext, *sequences: str) -> None:
        """``sequences`` are the fields with statements."""
        self.database = context.database
        self.options = {
            name: value
            for name, value in context.command.items()
            if name not in _NOT_FORWARDED and name not in sequences
        }
        """Fields that are sent to every shard unchanged"""
        self.write_concern_error: dict[str, Any] = {}
        """The field of that name and its labels, if a shard has returned one"""

    @abstractmethod
    def read(self, statement: Statement) -> Work:
        """Parse a statement; raises CommandError if it is invalid."""

    @abstractmethod
    def command(
        self, statements: Sequence[Statement]
    ) -> tuple[dict[str, Any], Mapping[str, Sequence[bytes]]]:
        """The command that runs some statements, and its document sequences."""

    @abstractmethod
    def add(self, statements: Sequence[Statement], reply: Mapping[str, Any]) -> list[Statement]:
        """Count the reply to a command with these statements; returns those that would change owners."""

    @abstractmethod
    def fail(self, statement: Statement, error: CommandError) -> None:
        """Count a failed statement."""

    @property
    @abstractmethod
    def has_errors(self) -> bool:
        """Whether a statement has failed."""

    @abstractmethod
    def has_found(self, reply: Mapping[str, Any]) -> bool:
        """Whether the only statement of a command has found its document, or has failed."""

    @abstractmethod
    def updated(self, before: bytes, after: bytes) -> dict[str, Any]:
        """The reply of a shard to a statement that changed one document."""

    @abstractmethod
    def upserted(self, document: bytes) -> dict[str, Any]:
        """The reply of a shard to an upsert that inserted a document."""

    def narrowed(self, statement: Statement, key: Mapping[str, Any]) -> Statement:
        """The statement restricted to one document, without `upsert` and `sort`."""
        fields = decode(statement.raw)
        fields[self.query] = {"$and": [fields.get(self.query, {}), key]}
        for name in ("upsert", "sort"):
            fields.pop(name, None)
        return Statement(statement.index, statement.ns, encode(fields), statement.id)

    def insertion(self, statement: Statement, document: bytes) -> bytes:  # noqa: ARG002 - others need it
        """The statement that inserts this document instead of its own."""
        return document

    def removal(self, statement: Statement, collection: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """The command that removes a document from its old owner.

        It has the statement's id, unless the insert on the new owner has it.
        """
        ids = {} if statement.id is None or self.returns_new else {"stmtIds": [statement.id]}
        return {"delete": collection, "deletes": [{"q": key, "limit": 1}], **ids}

    def _options_with_ids(self, statements: Sequence[Statement]) -> dict[str, Any]:
        ids = [statement.id for statement in statements if statement.id is not None]
        return {**self.options, "stmtIds": ids} if ids else self.options

    def _note_concern(self, reply: Mapping[str, Any]) -> None:
        if "writeConcernError" in reply and not self.write_concern_error:
            self.write_concern_error = {
                name: reply[name] for name in ("writeConcernError", "errorLabels") if name in reply
            }
