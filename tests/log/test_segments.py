"""Pieces of the log in memory: what is found again, what is dropped, and in which order."""

from tailrace.log.event_log import LogItem, Slice
from tailrace.log.segments import Segments


class Item(LogItem):
    """An item of a given weight."""

    __slots__ = ("size",)

    def __init__(self, ts: int, size: int = 1) -> None:
        super().__init__(ts)
        self.size = size

    @property
    def weight(self) -> int:
        return self.size


def piece(*times: int, scanned: int, size: int = 1) -> Slice:
    return Slice([Item(ts, size) for ts in times], scanned)


def found(segments: Segments, after: int) -> tuple[list[int], int] | None:
    piece = segments.find(after)
    return None if piece is None else ([item.ts for item in piece.items], piece.scanned)


def starts(segments: Segments) -> list[int]:
    seen = []
    place: int | None = -1
    while place is not None and (place := segments.next_start(place)) is not None:
        seen.append(place)
    return seen


def test_a_piece_is_found_from_each_place_within_it() -> None:
    segments = Segments()
    segments.add(10, piece(11, 13, 15, scanned=20))
    assert found(segments, 9) is None
    assert found(segments, 10) == ([11, 13, 15], 20)
    assert found(segments, 11) == ([13, 15], 20)
    assert found(segments, 12) == ([13, 15], 20)
    assert found(segments, 15) == ([], 20)
    assert found(segments, 19) == ([], 20)
    assert found(segments, 20) is None
    assert found(segments, 21) is None


def test_pieces_are_ordered_by_where_they_begin() -> None:
    segments = Segments()
    assert segments.next_start(0) is None
    segments.add(30, piece(31, scanned=35))
    segments.add(10, piece(11, scanned=15))
    segments.add(20, piece(21, scanned=25))
    assert starts(segments) == [10, 20, 30]
    assert segments.next_start(10) == 20
    assert segments.next_start(9) == 10
    assert segments.next_start(30) is None
    assert [found(segments, after) for after in (10, 20, 30)] == [([11], 15), ([21], 25), ([31], 35)]
    assert found(segments, 17) is None


def test_the_least_recently_used_pieces_are_dropped() -> None:
    segments = Segments(max_weight=3)
    for start in (10, 20, 30):
        segments.add(start, piece(start + 1, scanned=start + 5))
    assert starts(segments) == [10, 20, 30]
    segments.find(10)
    segments.add(40, piece(41, scanned=45))
    assert starts(segments) == [10, 30, 40]
    assert found(segments, 20) is None
    assert found(segments, 10) == ([11], 15)
    segments.add(50, piece(51, 52, scanned=55))
    assert starts(segments) == [10, 50]
    segments.add(60, piece(61, scanned=65, size=9))
    assert starts(segments) == [60]


def test_the_newest_piece_stays_whatever_it_weighs() -> None:
    segments = Segments(max_weight=3)
    segments.add(10, piece(11, scanned=15))
    segments.add(20, piece(21, scanned=25, size=100))
    assert starts(segments) == [20]
    assert found(segments, 20) == ([21], 25)


def test_a_piece_that_grows_makes_others_go() -> None:
    segments = Segments(max_weight=4)
    first, second = piece(11, scanned=15), piece(21, scanned=25)
    segments.add(10, first)
    segments.add(20, second)
    segments.add_weight(2)
    assert starts(segments) == [10, 20]
    # What has grown was no piece of these: they are weighed again, and stay.
    segments.add_weight(1)
    assert starts(segments) == [10, 20]
    grown = second.items[0]
    assert isinstance(grown, Item)
    grown.size += 3
    segments.add_weight(3)
    assert starts(segments) == [20]
    # After that there is room again.
    grown.size = 1
    segments.add_weight(9)
    segments.add(30, piece(31, 32, 33, scanned=35))
    assert starts(segments) == [20, 30]
