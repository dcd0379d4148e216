"""What a pipeline needs of the world around it: other collections, and what only a server knows."""

from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Document, Pause


class Services(Protocol):
    """Given by whoever runs the pipeline. All of it is asked for while the pipeline runs, never before.

    The iterables are read to their end or dropped; `PAUSE` may stand among the documents.
    """

    def documents(self, database: str, collection: str) -> Iterable[bytes | Pause]:
        """All documents of a collection or a view, none if it does not exist; views are resolved here."""

    def equal_documents(
        self, database: str, collection: str, path: str, value: Any
    ) -> Iterable[bytes | Pause] | None:
        """The documents for which a filter ``{path: value}`` holds under the simple collation, by an index.

        None if no index serves; documents too many do no harm, the pipeline looks again. A null stands for a
        missing field too.
        """

    def source(
        self, name: str, spec: Any, database: str, collection: str | None
    ) -> Iterable[Document | Pause]:
        """The documents of a stage that shows the server's own state, such as `$currentOp`.

        The specification is as the client wrote it; what is wrong with it is found here.
        """


class NoServices:
    """Nothing but the documents that the pipeline is run on."""

    def documents(self, database: str, collection: str) -> NoReturn:
        raise CommandError(
            ErrorCode.IllegalOperation, f"the collection {database}.{collection} cannot be read here"
        )

    def equal_documents(self, database: str, collection: str, path: str, value: Any) -> None:  # noqa: ARG002
        return

    def source(self, name: str, spec: Any, database: str, collection: str | None) -> NoReturn:  # noqa: ARG002
        raise CommandError(ErrorCode.IllegalOperation, f"{name} cannot be used here")
