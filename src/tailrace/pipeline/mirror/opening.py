"""Open the table of a collection, or make it; see whether it can be continued."""

import logging
from typing import Final

from tailrace.errors import HistoryError
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.dead_letters import publish_dead_letters
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import TableColumns
from tailrace.log_lines import fields
from tailrace.pipeline.mirror.mirror_state import MirrorState
from tailrace.pipeline.mirror.scope import table_place
from tailrace.pipeline.mirror.settings import MirrorSettings

_LOG: Final = logging.getLogger("tailrace.mirror")


def opened_table(
    settings: MirrorSettings, state: MirrorState, namespace: str, *, is_begun_again: bool
) -> MirrorTable:
    """The table of a collection; raises `HistoryError` if the one that is there is another one.

    ``is_begun_again`` if the collection will be copied again anyway.
    """
    place = table_place(settings.root, namespace)
    if not MirrorTable.exists(place):
        given = settings.schemas.get(namespace)
        columns = TableColumns(kind=settings.kind)
        if given is not None:
            columns = TableColumns(given, settings.kind, is_given=True)
        table = MirrorTable.create(
            place, identity=state.identity, namespace=namespace, through=state.through, columns=columns
        )
        publish_dead_letters(table)
        if settings.deletion_vectors:
            table.enable_vectors()
        return table
    table = MirrorTable.open(place)
    if table.identity != state.identity or table.namespace != namespace:
        raise HistoryError(
            f"the table in {place} mirrors {table.namespace} of the deployment {table.identity}; "
            "name another folder"
        )
    if table.kind is not settings.kind:
        raise HistoryError(
            f"the table in {place} is of the kind {table.kind}, and stays so: give --kind {table.kind}, or "
            "name another folder"
        )
    publish_dead_letters(table)
    _check_vectors(table, settings)
    # One that is ahead was made in a batch that did not come to its end.
    is_ahead = table.version == 0 or table.through > state.through
    if namespace not in state.namespaces and not is_ahead:
        _copy_again(table, state.through, is_begun_again=is_begun_again)
    return table


def _check_vectors(table: MirrorTable, settings: MirrorSettings) -> None:
    """Let a table have deletion vectors from now on, if that is wanted."""
    if table.has_vectors:
        if table.namespace in settings.schemas:
            raise HistoryError(
                f"the table in {table.place} has deletion vectors, and a table with a given schema has none: "
                "leave out its --schema, or name another folder"
            )
    elif settings.deletion_vectors and table.columns.is_given:
        raise HistoryError(
            f"the table in {table.place} has a given schema, and gets no deletion vectors: leave out "
            "--deletion-vectors, or name another folder"
        )
    elif settings.deletion_vectors:
        table.enable_vectors()


def _copy_again(table: MirrorTable, through: int, *, is_begun_again: bool) -> None:
    """Copy a collection again that was not followed for a while."""
    if not table.kind.has_past:
        removed = table.all_files
    elif is_begun_again or not table.live:
        removed = table.live  # all of its documents were deleted: no change of them can be missing
    else:
        raise HistoryError(
            f"the table in {table.place} lacks changes, because it was not mirrored for a while: give "
            f"--recopy {table.namespace} to begin it again, without its past, or name another folder"
        )
    _LOG.warning("Copied again, because it was not followed", extra=fields(ns=table.namespace))
    table.commit(removed=removed, copy_state=CopyState(), through=through)
    publish_dead_letters(table)
