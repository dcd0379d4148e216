"""How much memory stages may hold: each of them, and all of a server together.

Sizes are those of encoded documents plus a fixed amount for each, which is about how MongoDB counts. Small
values take several times as much in Python, so that a server needs more memory than `MemoryTotal.most`.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tailrace.bson.documents import encode_with_ticks
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.spill_folder import SpillFolder

DEFAULT_LIMIT: Final = 100 * 1024 * 1024
DEFAULT_TOTAL: Final = 512 * 1024 * 1024
ROW_OVERHEAD: Final = 112
"""Counted for each row besides its bytes."""
_VALUE_OVERHEAD: Final = 16
_SMALL: Final = 1 << 20
"""A stage that holds less than this is not asked to store rows while it collects them."""
_SMALL_AT_REST: Final = 16 * 1024
"""The same for a stage that has collected all its rows, which may belong to an idle cursor."""
_PLAIN: Final = frozenset({int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of single stages and accumulators, in bytes; server parameters set them."""

    sort: int = DEFAULT_LIMIT
    group: int = DEFAULT_LIMIT
    window: int = DEFAULT_LIMIT
    densify: int = DEFAULT_LIMIT
    facet_output: int = DEFAULT_LIMIT
    lookup: int = DEFAULT_LIMIT
    push: int = DEFAULT_LIMIT
    add_to_set: int = DEFAULT_LIMIT
    top: int = DEFAULT_LIMIT


class MemoryTotal:
    """What the stages of all commands and open cursors hold together."""

    __slots__ = ("most", "used")

    def __init__(self, most: int = DEFAULT_TOTAL) -> None:
        self.most = most
        self.used = 0


class Closable(Protocol):
    """What a stage has opened."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What the stages of one command may use, and what they have opened.

    A stage closes what it has opened. When one fails, that may take until its error is forgotten, so the
    owner of the pipeline calls `close` as well.
    """

    limits: Limits = field(default_factory=Limits)
    may_use_disk: bool = True
    total: MemoryTotal = field(default_factory=MemoryTotal)
    folder: SpillFolder = field(default_factory=SpillFolder)
    opened: dict[int, Closable] = field(default_factory=dict)
    """By identity."""

    def hold(self, limit: int) -> "Holding":
        """The account of a new stage."""
        holding = Holding(limit, self)
        self.opened[id(holding)] = holding
        return holding

    def close(self) -> None:
        """Release the memory of all stages, and remove their files."""
        for item in list(self.opened.values()):
            item.close()


class Holding:
    """What one stage holds."""

    __slots__ = ("_limit", "_memory", "_total", "size")

    def __init__(self, limit: int, memory: StageMemory) -> None:
        self._limit = limit
        self._memory = memory
        self._total = memory.total
        self.size = 0

    def add(self, size: int) -> bool:
        """Count more bytes, or fewer; returns whether the stage holds too much now."""
        self.size += size
        total = self._total
        total.used += size
        return self.size > self._limit or (total.used > total.most and self.size > _SMALL)

    @property
    def is_too_much_at_rest(self) -> bool:
        """Whether a stage that has collected all its rows has to store them."""
        return self._total.used > self._total.most and self.size > _SMALL_AT_REST

    def clear(self) -> None:
        """Nothing is held any more."""
        self._total.used -= self.size
        self.size = 0

    def close(self) -> None:
        """The stage has ended."""
        self.clear()
        self._memory.opened.pop(id(self), None)


def size_of(value: Any) -> int:
    """About how many bytes a value takes; quick for all types.

    >>> size_of(1), size_of("abc"), size_of({"a": [1, 2]})
    (16, 19, 50)
    """
    kind = type(value)
    if kind in _PLAIN:
        return _VALUE_OVERHEAD
    if kind is str or kind is bytes:
        return _VALUE_OVERHEAD + len(value)
    return len(encode_with_ticks({"": value})) + _VALUE_OVERHEAD


def exceeded(name: str, limit: int, how: str = "cannot spill to disk") -> CommandError:
    """The error of an accumulator that holds too much."""
    reason = f"{name} used too much memory and {how}. Memory limit: {limit} bytes"
    return CommandError(ErrorCode.ExceededMemoryLimit, reason)
