"""Sort any number of items with limited memory: what does not fit is stored as sorted runs."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.memory.runs import Keyed, Runs
from tailrace.mongod.language.aggregation.rows import PAUSE, ROWS_BETWEEN_PAUSES, Pause
from tailrace.pacing import tick, ticking
from tailrace.query.step_sort import buckets, sorted_with_ticks
from tailrace.unused import LARGE, freed_in_pieces

Item = TypeVar("Item")


class Codec(NamedTuple, Generic[Item]):
    """How items are stored."""

    size: Callable[[Item], int]
    """What an item counts in memory"""
    pack: Callable[[Item], bytes]
    unpack: Callable[[bytes], Keyed[Item]]


class Sorter(Generic[Item]):
    """Add items, and call `spill` when `add` says so; then read `items`. Sorting is stable.

    With ``most`` only so many of the first items are wanted, and not many more are held.
    """

    def __init__(
        self,
        memory: StageMemory,
        limit: int,
        codec: Codec[Item],
        refused: Callable[[], CommandError],
        *,
        reverse: bool = False,
        most: int | None = None,
    ) -> None:
        """``limit`` is the memory for it; ``refused`` is the error if that is not enough without a disk."""
        self._codec = codec
        self._reverse = reverse
        self._most = most
        self._may_use_disk = memory.may_use_disk
        self._refused = refused
        self._runs = Runs(memory, codec.unpack, reverse=reverse)
        self._holding = memory.hold(limit)
        self._held: list[Keyed[Item]] = []
        self._edge: Any = None
        """The key of the worst wanted item, as a tuple of one; None until ``most`` items are there."""
        self.size = 0
        """How many bytes were added."""

    @property
    def spills(self) -> int:
        """How often items were stored."""
        return self._runs.spills

    def add(self, key: Any, item: Item) -> bool:
        """Add an item; returns whether `spill` has to be called now."""
        tick()
        size = self._codec.size(item)
        self.size += size
        edge = self._edge
        if edge is not None and (key <= edge[0] if self._reverse else key >= edge[0]):
            return False
        self._held.append((key, item))
        if len(self._held) == LARGE:
            freed_in_pieces(self._held)
        is_over = self._holding.add(size)
        if self._most is not None and (is_over or len(self._held) >= 2 * self._most + 16):
            return self._cut()
        return is_over

    def _cut(self) -> bool:
        """Drop what is not wanted."""
        if self._most is None or len(self._held) < self._most:
            return self._holding.add(0)
        self._held = sorted_with_ticks(self._held, reverse=self._reverse)
        dropped = self._held[self._most :]
        del self._held[self._most :]
        if self._held:
            self._edge = (self._held[-1][0],)
        return self._holding.add(-sum(self._codec.size(item) for _, item in ticking(dropped)))

    def spill(self) -> Iterator[Pause]:
        """Store everything that is held; raises if the disk may not be used."""
        if not self._may_use_disk:
            raise self._refused()
        ordered = sorted_with_ticks(self._held, reverse=self._reverse)
        yield PAUSE
        self._held = []
        pack = self._codec.pack
        self._runs.add(pack(item) for _, item in ordered[: self._most])
        self._holding.clear()
        yield PAUSE

    def items(self) -> Iterator[Item | Pause]:
        """All items in order; what has been read is no longer held."""
        is_too_much = self._holding.is_too_much_at_rest
        if is_too_much and not self._may_use_disk:
            raise self._refused()
        if self._runs or is_too_much:
            if self._held:
                yield from self.spill()
            yield from self._merged()
            return
        # Without their keys, which take more memory than small items: this may be an idle cursor.
        ordered: list[Item] = freed_in_pieces([], len(self._held))
        for bucket in buckets(self._held, reverse=self._reverse):
            ordered += [item for _, item in bucket or ()]
            tick()
            if len(ordered) > ROWS_BETWEEN_PAUSES:
                yield PAUSE
        if self._most is not None:
            del ordered[self._most :]
        ordered.reverse()
        while ordered:
            item = ordered.pop()
            self._holding.add(-self._codec.size(item))
            tick()
            yield item
            if ordered and not len(ordered) % ROWS_BETWEEN_PAUSES:
                yield PAUSE

    def _merged(self) -> Iterator[Item | Pause]:
        for count, (_, item) in enumerate(self._runs.merged(), start=1):
            if self._most is not None and count > self._most:
                break
            tick()
            yield item
            if not count % ROWS_BETWEEN_PAUSES:
                yield PAUSE

    def close(self) -> None:
        """Release memory and remove the file."""
        self._held = []
        self._holding.close()
        self._runs.close()
