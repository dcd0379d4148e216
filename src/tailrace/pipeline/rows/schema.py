"""The columns of a change stream.

Every stream has the same columns, named like the fields of an event, so users need not write a schema.
Documents are VARIANT, canonical Extended JSON or BSON bytes, as the user chooses. Fields without a column,
such as those a `$project` adds, are together in ``other``.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from tailrace.errors import UsageError

TOKEN: Final = "token"
OTHER: Final = "other"
CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"


class Documents(Enum):
    """How a column shows a document; the values are those of the option."""

    VARIANT = "variant"
    JSON = "json"
    BSON = "bson"

    @property
    def spark_type(self) -> str:
        return {"variant": "VARIANT", "json": "STRING", "bson": "BINARY"}[self.value]


class Output(Enum):
    """What a row is."""

    COLUMNS = "columns"
    """The fields of an event."""
    EVENT = "event"
    """The event as one document, with its token and its time."""
    DOCUMENT = "document"
    """The event's `fullDocument`; events without one have no row."""


class FaultMode(Enum):
    """What happens to a row with a value that its column cannot hold."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True)
class RowLayout:
    """What the rows of a stream look like."""

    output: Output = Output.COLUMNS
    documents: Documents = Documents.VARIANT
    document_schema: str | None = None
    """The columns of `fullDocument` and `fullDocumentBeforeChange` in DDL, if they are to be structs."""
    mode: FaultMode = FaultMode.FAILFAST
    corrupt_column: str | None = None
    """Where PERMISSIVE puts the event, as Extended JSON, if a value did not fit."""
    changelog: bool = False
    extended_json: bool = False
    columns: tuple[str, ...] | None = None
    """The columns to show, in order; None for all. The others are not converted."""

    def __post_init__(self) -> None:
        if self.changelog and self.output is not Output.COLUMNS:
            raise UsageError(
                "changelog columns need the columns of an event beside them; leave out the option output"
            )
        unknown = [name for name in self.columns or () if name not in self.known]
        if unknown or self.columns == ():
            raise UsageError(
                f"there is no column {', '.join(unknown) or 'without a name'}; the option columns takes some "
                f"of {', '.join(self.known)}"
            )

    def ddl(self) -> str:
        """Return the schema, unless the user provides one."""
        known = self.known
        return ", ".join(f"`{name}` {known[name]}" for name in self.columns or known)

    @property
    def known(self) -> dict[str, str]:
        """All columns there are, with their types."""
        parts = {Output.COLUMNS: self._columns, Output.EVENT: self._event, Output.DOCUMENT: self._document}
        columns = parts[self.output]()
        if self.changelog:
            columns |= {CHANGE_TYPE: "STRING", COMMIT_VERSION: "BIGINT", COMMIT_TIMESTAMP: "TIMESTAMP"}
        if self.corrupt_column is not None:
            columns[self.corrupt_column] = "STRING"
        return columns

    @property
    def _image_type(self) -> str:
        if self.document_schema is None:
            return self.documents.spark_type
        return f"STRUCT<{self.document_schema}>"

    def _columns(self) -> dict[str, str]:
        document = self.documents.spark_type
        namespace = "STRUCT<db: STRING, coll: STRING>"
        return {
            TOKEN: "STRING",
            "operationType": "STRING",
            "clusterTime": "BIGINT",
            "wallTime": "TIMESTAMP",
            "ns": namespace,
            "to": namespace,
            "collectionUUID": "STRING",
            "documentKey": document,
            "fullDocument": self._image_type,
            "fullDocumentBeforeChange": self._image_type,
            "updateDescription": (
                f"STRUCT<updatedFields: {document}, removedFields: ARRAY<STRING>, "
                "truncatedArrays: ARRAY<STRUCT<field: STRING, newSize: INT>>, "
                f"disambiguatedPaths: {document}>"
            ),
            "operationDescription": document,
            "txnNumber": "BIGINT",
            "lsid": document,
            "splitEvent": "STRUCT<fragment: INT, of: INT>",
            OTHER: document,
        }

    def _event(self) -> dict[str, str]:
        return {TOKEN: "STRING", "clusterTime": "BIGINT", "event": self.documents.spark_type}

    def _document(self) -> dict[str, str]:
        return {"fullDocument": self._image_type}
