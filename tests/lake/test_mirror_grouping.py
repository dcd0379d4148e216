"""Which files of a mirrored table are written again for some changes."""

from tailrace.bson.documents import encode
from tailrace.bson.id_key import id_key
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.grouping import changes_by_file
from tailrace.lake.mirror.merge import DELETE, RowChange

KEYS_OF_A_FILE = 1000


def files_of(*shapes: tuple[int, int]) -> list[MirrorFile]:
    """Files that follow each other, of some sizes and with some rows."""
    return [
        MirrorFile(
            path=str(number),
            size=size,
            rows=rows,
            first_key=key(number * KEYS_OF_A_FILE),
            last_key=key((number + 1) * KEYS_OF_A_FILE - 1),
            first_time=1,
            last_time=1,
            modified=0,
        )
        for number, (size, rows) in enumerate(shapes)
    ]


def key(number: int) -> bytes:
    return id_key(encode({"_id": number}))


def rewritten(files: list[MirrorFile], *changed: int) -> list[list[str]]:
    """The paths of the files that are written again together, if some of them have a change."""
    changes = [
        RowChange(key(number * KEYS_OF_A_FILE), DELETE, encode({"_id": number}), 2, "82", 2)
        for number in changed
    ]
    groups = changes_by_file(files, CopyState.empty_at(1), changes)
    return [[file.path for file in group.files] for group in groups]


def test_a_large_file_is_written_alone() -> None:
    assert rewritten(files_of(*[(2 << 20, 5000)] * 4), 1) == [["1"]]


def test_many_rows_that_take_little_room_are_not_small() -> None:
    assert rewritten(files_of(*[(500_000, 50_000)] * 4), 1) == [["1"]]


def test_small_neighbours_are_joined_to_one_file_that_is_not_small() -> None:
    assert rewritten(files_of(*[(300_000, 100)] * 9), 4) == [["1", "2", "3", "4"]]
    assert rewritten(files_of(*[(1000, 6000)] * 9), 0, 8) == [["0", "1", "2"], ["6", "7", "8"]]


def test_a_small_file_is_not_joined_with_a_large_one() -> None:
    assert rewritten(files_of((1000, 10), (2 << 20, 5000), (1000, 10), (1000, 10)), 2) == [["2", "3"]]
