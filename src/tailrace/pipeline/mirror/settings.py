"""Settings of a mirror."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.errors import UsageError
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.data_files import TARGET_BYTES
from tailrace.namespaces import NamespaceChoice

RANGE_DOCUMENTS: Final = 100_000
"""About how many documents one task copies: small beside the five minutes that a server keeps a snapshot"""
_MAX_ENTRIES: Final = 200_000
_MAX_BYTES: Final = 128 << 20
GRACE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    root: str
    """The folder or URL that the tables are below."""
    chosen: NamespaceChoice
    kind: TableKind = TableKind.CURRENT
    """What the rows of the tables are."""
    schemas: Mapping[str, Layout] = field(default_factory=dict)
    """The columns that the user has given, by collection; those of the others are inferred."""
    interval: float | None = None
    """Seconds between the beginnings of two batches; None ends when the tables are complete."""
    max_documents_per_second: float | None = None
    """How fast the copy reads, all tasks together; None for no limit."""
    max_entries: int = _MAX_ENTRIES
    max_bytes: int = _MAX_BYTES
    """The most entries and bytes of the oplog in one batch."""
    range_documents: int = RANGE_DOCUMENTS
    file_bytes: int = TARGET_BYTES
    grace_seconds: float = GRACE_SECONDS
    """How long files stay that are not part of a table any more, for its readers."""
    recopy: frozenset[str] = frozenset()
    """Collections to copy again from the beginning."""
    schema_rows: bool = False
    """Whether a table of changes gets a row for each column that is added to it."""
    deletion_vectors: bool = False
    """Whether changed rows are marked dead, instead of writing their files again."""

    def __post_init__(self) -> None:
        if self.schema_rows and self.kind is not TableKind.CHANGES:
            raise UsageError(
                f"rows of schema changes are for tables of changes, not of the kind {self.kind}: give --kind "
                f"{TableKind.CHANGES}, or read the table _schema_changes"
            )
        if self.deletion_vectors and self.kind.has_past:
            raise UsageError(
                f"deletion vectors are for tables of the kind {TableKind.CURRENT}, not {self.kind}: leave "
                f"out --deletion-vectors, or give --kind {TableKind.CURRENT}"
            )
        if self.deletion_vectors and self.schemas:
            raise UsageError(
                "deletion vectors are for tables whose columns follow from their documents: leave out "
                "--deletion-vectors or --schema"
            )
