"""A compiled pipeline."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.document_stage import joined
from tailrace.mongod.language.aggregation.output import Output
from tailrace.mongod.language.aggregation.rows import PAUSE, Pause, Rows, rows_of
from tailrace.mongod.language.aggregation.stage import Stage

Namespace: TypeAlias = tuple[str, str]
"""(database, collection)"""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a pipeline, compiled for one command.

    Stages cache what they have read from other collections, so a pipeline is valid for one snapshot: that of
    a cursor or of a transaction.
    """

    stages: Sequence[Stage]
    reads_collection: bool = True
    """False if the first stage has its own documents, and those given to `run` are ignored"""
    output: Output | None = None
    """The target of a final `$out` or `$merge`; the caller writes the results there"""
    foreign: frozenset[Namespace] = frozenset()
    """The other collections that the pipeline reads, at any depth"""

    def run(self, documents: Iterable[bytes | Pause]) -> Generator[bytes | Pause, None, None]:
        """The results as BSON, lazily: documents are read only as results are consumed."""
        try:
            for row in self.rows(rows_of(documents)):
                yield row if row is PAUSE else row.raw
        except RecursionError:
            raise CommandError(ErrorCode.Overflow, "a document is nested too deeply") from None

    def rows(self, rows: Rows) -> Rows:
        """`run` on rows, for a pipeline inside a stage."""
        for stage in joined(self.stages):
            rows = stage(rows)
        return rows
