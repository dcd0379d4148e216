"""How a kind of command says its statements to a shard, and what the shard's replies come to.

The commands that write differ in how they are written, not in what happens to their statements. A `Form` is
all that the rest has to know of the difference: it makes a command of some of the statements, and puts the
replies of shards together to that of the whole command.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.writes.statement import Statement, Work
from tailrace.mongod.server.dispatch.context import Context

_NOT_PASSED_ON: Final = frozenset(
    {
        "lsid", "txnNumber", "autocommit", "startTransaction", "stmtId", "stmtIds", "readConcern",
        "writeConcern", "maxTimeMS", "$db", "$clusterTime", "$readPreference", "recoveryToken",
    }
)  # fmt: skip
"""Fields of a client's command that the router answers for, or says to shards in its own way"""


class Form(ABC):
    """One command under way: its form, and what is known of its outcome."""

    query: str = ""
    """The field in which statements have their filter"""
    returns_new = False
    """Whether the reply has the document as it is behind the change"""

    def __init__(self, context: Context, *sequences: str) -> None:
        """``sequences`` are the fields that hold statements."""
        self.database = context.database
        self.options = {
            name: value
            for name, value in context.command.items()
            if name not in _NOT_PASSED_ON and name not in sequences
        }
        """What every shard is told as the client wrote it"""
        self.write_concern_error: dict[str, Any] = {}
        """The field of that name and its labels, if a shard had one"""

    @abstractmethod
    def read(self, statement: Statement) -> Work:
        """What a statement says; raises if that makes no sense."""

    @abstractmethod
    def command(
        self, statements: Sequence[Statement]
    ) -> tuple[dict[str, Any], Mapping[str, Sequence[bytes]]]:
        """The command that runs some statements, and the documents beside it."""

    @abstractmethod
    def add(self, statements: Sequence[Statement], reply: Mapping[str, Any]) -> list[Statement]:
        """Count the reply to a command with these statements; those that would move to another shard."""

    @abstractmethod
    def fail(self, statement: Statement, error: CommandError) -> None:
        """Count a statement that failed."""

    @property
    @abstractmethod
    def has_errors(self) -> bool:
        """Whether a statement has failed."""

    @abstractmethod
    def has_found(self, reply: Mapping[str, Any]) -> bool:
        """Whether the only statement of a command has found its document, or has failed."""

    @abstractmethod
    def updated(self, before: bytes, after: bytes) -> dict[str, Any]:
        """What a shard replies to a statement that changed one document."""

    @abstractmethod
    def upserted(self, document: bytes) -> dict[str, Any]:
        """What a shard replies to a statement that inserted a document because it found none."""

    def narrowed(self, statement: Statement, key: Mapping[str, Any]) -> Statement:
        """The same statement for one document alone, if that is still what it looks for."""
        fields = decode(statement.raw)
        fields[self.query] = {"$and": [fields.get(self.query, {}), key]}
        for name in ("upsert", "sort"):
            fields.pop(name, None)
        return Statement(statement.index, statement.ns, encode(fields), statement.id)

    def insertion(self, statement: Statement, document: bytes) -> bytes:  # noqa: ARG002 - others need it
        """The statement that inserts this document in place of the one that it has."""
        return document

    def removal(self, statement: Statement, collection: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """The command that removes a document which goes on elsewhere.

        It has the statement's id, unless the insert has.
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
