"""The columns of a change stream.

Nobody has to write a schema: every stream has the same columns, named like the fields of an event. Documents
are VARIANT, canonical Extended JSON or BSON bytes, as the user chooses. Fields that have no column of their
own, such as those a `$project` adds, are together in ``other``.
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
    """How a column shows a document; the value is the name of the option."""

    VARIANT = "variant"
    JSON = "json"
    BSON = "bson"

    @property
    def spark_type(self) -> str:
        """The type of the column."""
        return {"variant": "VARIANT", "json": "STRING", "bson": "BINARY"}[self.value]


class Output(Enum):
    """What a row is."""

    COLUMNS = "columns"
    """the fields of an event"""
    EVENT = "event"
    """the event as one document, its token and its time beside it"""
    DOCUMENT = "document"
    """the document the event shows as `fullDocument`; events without one have no row"""


class Mode(Enum):
    """What becomes of a row with a value that its column cannot hold."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True)
class Layout:
    """What the rows of a stream look like."""

    output: Output = Output.COLUMNS
    documents: Documents = Documents.VARIANT
    document_schema: str | None = None
    """the columns of `fullDocument` and `fullDocumentBeforeChange` in DDL, if they are to be structs"""
    mode: Mode = Mode.FAILFAST
    corrupt_column: str | None = None
    """where PERMISSIVE puts the event, as Extended JSON, if something in it did not fit"""
    changelog: bool = False
    extended_json: bool = False

    def __post_init__(self) -> None:
        if self.changelog and self.output is not Output.COLUMNS:
            raise UsageError(
                "changelog columns stand beside the columns of an event; leave out the option output"
            )

    def ddl(self) -> str:
        """The schema, unless the user brings one."""
        parts = {Output.COLUMNS: self._columns, Output.EVENT: self._event, Output.DOCUMENT: self._document}
        columns = parts[self.output]()
        if self.changelog:
            columns |= {CHANGE_TYPE: "STRING", COMMIT_VERSION: "BIGINT", COMMIT_TIMESTAMP: "TIMESTAMP"}
        if self.corrupt_column is not None:
            columns[self.corrupt_column] = "STRING"
        return ", ".join(f"`{name}` {spark_type}" for name, spark_type in columns.items())

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
