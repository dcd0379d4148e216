"""Bring a table into the columns of a schema that the user gave, or has changed.

All rows have their documents. So they are written again, with those that were dead letters: what fits the new
schema is in the table afterwards, what does not is a dead letter. One commit replaces all files.
"""

import logging
from typing import Final

from tailrace.lake.columns.column_types import Layout
from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.dead_letters import dead_letters_of, publish_dead_letters
from tailrace.lake.mirror.grouping import spans_of
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import TableColumns
from tailrace.log_lines import fields
from tailrace.pipeline.mirror.tasks import RefitTask, RunTasks

_LOG: Final = logging.getLogger("tailrace.mirror")


def refit_table(table: MirrorTable, layout: Layout, run: RunTasks, file_bytes: int) -> None:
    """Give a table other columns; nothing happens if it has them."""
    columns = TableColumns(layout, table.kind, is_given=True)
    if table.columns == columns:
        return
    before = sum(file.rows for file in table.letters)
    places = [table.place, dead_letters_of(table).place]
    # Live rows stay in files with disjoint ranges of keys; past ones may be in any.
    groups = [*spans_of(table.live), *((file,) for file in table.past)]
    tasks = [RefitTask(places, table.store.delta_options, group, columns, file_bytes) for group in groups]
    added: list[MirrorFile] = [file for files in run(tasks) for file in files]
    table.commit(added, table.all_files, layout=layout, is_given=True)
    publish_dead_letters(table)
    after = sum(file.rows for file in table.letters)
    _LOG.info(
        "Columns changed", extra=fields(ns=table.namespace, deadLettersBefore=before, deadLettersNow=after)
    )
