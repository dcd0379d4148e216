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
    """Stages in their order, compiled for one command.

    What the stages have read of other collections they keep, so that a pipeline is for as long as those are
    to look the same: a cursor's snapshot, or a transaction.
    """

    stages: Sequence[Stage]
    reads_collection: bool = True
    """False if the first stage brings its own documents and the ones given to `run` do not count."""
    output: Output | None = None
    """Where a final `$out` or `$merge` wants the results to go; writing them there is left to the caller."""
    foreign: frozenset[Namespace] = frozenset()
    """The collections that the pipeline reads beside its own, at any depth."""

    def run(self, documents: Iterable[bytes | Pause]) -> Generator[bytes | Pause, None, None]:
        """The results as BSON, lazily: nothing is read before they are asked for, and no more than needed."""
        try:
            for row in self.rows(rows_of(documents)):
                yield row if row is PAUSE else row.raw
        except RecursionError:
            raise CommandError(ErrorCode.Overflow, "a document is nested too deeply") from None

    def rows(self, rows: Rows) -> Rows:
        """The same on rows, for a pipeline inside another's stage."""
        for stage in joined(self.stages):
            rows = stage(rows)
        return rows
