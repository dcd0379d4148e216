"""What a pipeline asks of the server: other collections, and the server's own state."""

from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Document, Pause


class Services(Protocol):
    """Supplied by the caller of the pipeline; used only while the pipeline runs.

    The iterables are read to their end or dropped; `PAUSE` may be among the documents.
    """

    def documents(self, database: str, collection: str) -> Iterable[bytes | Pause]:
        """All documents of a collection or a view; none if it does not exist."""

    def equal_documents(
        self, database: str, collection: str, path: str, value: Any
    ) -> Iterable[bytes | Pause] | None:
        """The documents that match ``{path: value}`` under the simple collation, by an index.

        None if no index can be used. There may be further documents, because the pipeline checks each. A null
        also matches a missing field.
        """

    def source(
        self, name: str, spec: Any, database: str, collection: str | None
    ) -> Iterable[Document | Pause]:
        """The documents of a stage that shows the server's own state, such as `$currentOp`.

        The specification is the client's and is checked here.
        """


class NoServices:
    """For a pipeline that reads only the documents given to `Pipeline.run`."""

    def documents(self, database: str, collection: str) -> NoReturn:
        raise CommandError(
            ErrorCode.IllegalOperation, f"the collection {database}.{collection} cannot be read here"
        )

    def equal_documents(self, database: str, collection: str, path: str, value: Any) -> None:  # noqa: ARG002
        return

    def source(self, name: str, spec: Any, database: str, collection: str | None) -> NoReturn:  # noqa: ARG002
        raise CommandError(ErrorCode.IllegalOperation, f"{name} cannot be used here")
