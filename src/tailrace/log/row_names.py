"""Which parts of the history hold nothing for a stream, by the columns that name its rows.

Reading these columns takes a tenth of what reading whole rows takes. What was found about a file stays in
memory, because files never change.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tailrace.events.oplog_entry import Head
from tailrace.lake.checksums import read_verified
from tailrace.lake.data_file import AddedFile
from tailrace.lake.row_kinds import KIND_COLUMNS, Other, RowKind, RowKinds
from tailrace.lake.schema import REPEATED, TIME_COLUMNS, time_of
from tailrace.lake.table import HistoryTable

GROUPS_AT_ONCE: Final = 16
"""Row groups to read in one call, because others wait for its thread: about 20 ms."""
_MOST_GROUPS: Final = 1 << 19
"""Row groups to remember: those of 4,000 files of 128 MB, or of 500 of 1 GB; about 150 MB."""
_ALL_ROWS: Final = 1 << 30
"""More than a row group has."""

IsUnseen: TypeAlias = Callable[[Head], bool]
"""Whether a stream shows no document change of a kind."""


class _Group(NamedTuple):
    """What a row group holds: rows of these kinds, between two cluster times."""

    first: int
    last: int
    kinds: frozenset[RowKind | Other]


class RowNames:
    """What was found in the files of a table."""

    def __init__(self, table: HistoryTable) -> None:
        self._table = table
        self._kinds = RowKinds()
        self._known: OrderedDict[str, list[_Group]] = OrderedDict()
        self._count = 0
        """Groups of all files together."""

    def skip(self, after: int, through: int, is_unseen: IsUnseen) -> int:
        """The cluster time up to which no row after ``after`` is seen; at most ``through``.

        It may be that there is more to skip from there. Raises `HistoryError` for a damaged file.
        """
        place = after
        may_read = True
        for file in self._table.files.between(after, through):
            groups = self._groups(file)
            for number in range(len(groups) + GROUPS_AT_ONCE):
                if number == len(groups):
                    if not may_read or not self._read_more(file, groups):
                        # The next group may go on with the cluster time of the last one.
                        return max(after, min(place - 1, through))
                    may_read = False
                group = groups[number]
                if group.last > after and any(
                    isinstance(kind, Other) or not is_unseen(kind.head) for kind in group.kinds
                ):
                    return max(after, min(place, group.first - 1, through))
                place = max(place, group.last)
                if place == file.last_time:
                    break
        return through

    def _groups(self, file: AddedFile) -> list[_Group]:
        groups = self._known.setdefault(file.path, [])
        self._known.move_to_end(file.path)
        while self._count > _MOST_GROUPS and len(self._known) > 1:
            self._count -= len(self._known.popitem(last=False)[1])
        return groups

    def _read_more(self, file: AddedFile, groups: list[_Group]) -> bool:
        """Add the next groups of a file; return whether there were any."""
        begin = len(groups)
        columns = (*TIME_COLUMNS, *KIND_COLUMNS)
        try:
            for batch in read_verified(
                self._table.store,
                file.path,
                _ALL_ROWS,
                size=file.size,
                columns=columns,
                dictionaries=REPEATED,
                groups=lambda metadata: range(begin, min(begin + GROUPS_AT_ONCE, metadata.num_row_groups)),
            ):
                _, kinds = self._kinds.of(batch)
                groups.append(
                    _Group(time_of(batch, 0), time_of(batch, batch.num_rows - 1), frozenset(kinds.values()))
                )
        except FileNotFoundError:
            return False  # it was merged with others: the reader of whole rows finds those
        finally:
            self._count += len(groups) - begin
        return len(groups) > begin
