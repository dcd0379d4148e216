"""The Delta table of a collection's dead letters: the documents that do not fit the schema given by the user.

Two Delta tables cannot be changed in one step. So the commit of the collection's table names the files of
the dead letters, too, and decides. Their own table gets these files after it, or at the next start.
"""

from dataclasses import replace

from tailrace.lake.columns.fit import DEAD_LETTERS
from tailrace.lake.mirror.layout import dead_letters_place
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import TableColumns


def dead_letters_of(table: MirrorTable) -> MirrorTable:
    """The table of the dead letters of a table; it is made if there is none."""
    place, options = dead_letters_place(table.place), table.store.delta_options
    if MirrorTable.exists(place, options):
        return MirrorTable.open(place, options)
    return MirrorTable.create(
        place,
        identity=table.identity,
        namespace=table.namespace,
        through=table.through,
        columns=TableColumns(DEAD_LETTERS, table.kind),
        options=options,
    )


def publish_dead_letters(table: MirrorTable) -> None:
    """Give the table of dead letters the files that the collection's table names."""
    if not table.columns.is_given:
        return
    letters = dead_letters_of(table)
    wanted = {file.path: replace(file, is_letters=False) for file in table.letters}
    present = {file.path: file for file in letters.files}
    added = [file for path, file in wanted.items() if path not in present]
    removed = [file for path, file in present.items() if path not in wanted]
    if added or removed:
        letters.commit(added, removed, through=table.through)
