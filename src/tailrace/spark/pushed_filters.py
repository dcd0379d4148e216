"""Filters of a query on ``format("tailrace")`` that the source evaluates: which part of the rows is read."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import DataType, LongType, StringType, StructType, TimestampType

from tailrace.events.resume_token import cluster_time_of
from tailrace.pipeline.rows.schema import TOKEN, Output
from tailrace.pipeline.streams.row_condition import ALL_ROWS

_SIGN: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN_LEAD: Final = re.compile("82[0-9A-F]{16}")
_NAMES: Final = {("operationType",): "operations", ("ns", "db"): "databases", ("ns", "coll"): "collections"}
_CLUSTER_TIME: Final = ("clusterTime",)
_WALL_TIME: Final = ("wallTime",)
_OF_EVENTS: Final = frozenset({(TOKEN,), _CLUSTER_TIME})
_TYPES: Final[dict[tuple[str, ...], type[DataType]]] = {
    (TOKEN,): StringType,
    _CLUSTER_TIME: LongType,
    _WALL_TIME: TimestampType,
    **dict.fromkeys(_NAMES, StringType),
}
_EQUAL: Final = (EqualTo, EqualNullSafe)
_LOWER: Final = (GreaterThan, GreaterThanOrEqual)
_UPPER: Final = (LessThan, LessThanOrEqual)


class PushedFilters:
    """Collects filters as one condition."""

    def __init__(self, schema: StructType, output: Output, newest: Callable[[], int]) -> None:
        """``newest`` returns the last cluster time that the query can see."""
        self._schema = schema
        self._output = output
        self._newest = newest
        self._taken: set[tuple[str, ...]] = set()
        self.condition = ALL_ROWS

    def take(self, condition: Filter) -> bool:
        """Add a filter; return whether Spark need not evaluate it."""
        path = getattr(condition, "attribute", None)
        value = getattr(condition, "value", None)
        if path not in _TYPES or value is None or not self._is_own(path):
            return False
        if path in _NAMES:
            is_taken = self._take_names(condition, _NAMES[path], value)
        elif path == _CLUSTER_TIME:
            is_taken = self._take_times(condition, value)
        elif path == _WALL_TIME:
            is_taken = self._take_walls(condition, value)
        else:
            self._narrow_by_token(condition, value)
            return False
        if is_taken:
            self._taken.add(path)
        return is_taken

    def implies(self, condition: Filter) -> bool:
        """Return whether every row that meets the filters that were taken meets this one."""
        return isinstance(condition, IsNotNull) and any(
            path[: len(condition.attribute)] == condition.attribute for path in self._taken
        )

    def _is_own(self, path: tuple[str, ...]) -> bool:
        """Whether the column shows the event's field, with the type it has without a schema of the user's."""
        if self._output is Output.DOCUMENT or (self._output is Output.EVENT and path not in _OF_EVENTS):
            return False
        found: DataType = self._schema
        for name in path:
            if not isinstance(found, StructType) or name not in found.fieldNames():
                return False
            found = found[name].dataType
        return isinstance(found, _TYPES[path])

    def _take_names(self, condition: Filter, part: str, value: Any) -> bool:
        if isinstance(condition, _EQUAL):
            values = frozenset({value})
        elif isinstance(condition, In):
            values = frozenset(value) - {None}
        else:
            return False
        if not all(isinstance(name, str) for name in values):
            return False
        known = getattr(self.condition, part)
        changed: dict[str, Any] = {part: values if known is None else known & values}
        self.condition = replace(self.condition, **changed)
        return True

    def _take_times(self, condition: Filter, value: Any) -> bool:
        # The column is signed: times from 2038 on are less than all others.
        if not isinstance(value, int) or value < 0:
            return False
        if isinstance(condition, _UPPER) and self._newest() >= _SIGN:
            return False
        return self._narrow(condition, value, value)

    def _narrow(self, condition: Filter, first: int, last: int) -> bool:
        """Apply a filter on a value that the cluster times from ``first`` to ``last`` have."""
        known = self.condition
        after, through = known.after, known.through
        if isinstance(condition, _EQUAL):
            after, through = max(after, first - 1), min(through, last)
        elif isinstance(condition, _LOWER):
            after = max(after, first - 1 if isinstance(condition, GreaterThanOrEqual) else last)
            through = min(through, _SIGN - 1)
        elif isinstance(condition, _UPPER):
            through = min(through, last if isinstance(condition, LessThanOrEqual) else max(first - 1, 0))
        else:
            return False
        self.condition = replace(known, after=after, through=through)
        return True

    def _take_walls(self, condition: Filter, value: Any) -> bool:
        if not isinstance(value, datetime) or value.tzinfo is None:
            return False
        microseconds = (value - _EPOCH) // timedelta(microseconds=1)
        before, since = microseconds // 1000, -(-microseconds // 1000)
        known = self.condition
        first, last = known.first_wall, known.last_wall
        if isinstance(condition, _EQUAL):
            first, last = max(first, since), min(last, before)
        elif isinstance(condition, _LOWER):
            first = max(first, since if isinstance(condition, GreaterThanOrEqual) else before + 1)
        elif isinstance(condition, _UPPER):
            last = min(last, before if isinstance(condition, LessThanOrEqual) else since - 1)
        else:
            return False
        self.condition = replace(known, first_wall=first, last_wall=last)
        return True

    def _narrow_by_token(self, condition: Filter, value: Any) -> None:
        """Read only the cluster times that such tokens have; Spark compares the tokens."""
        if not isinstance(value, str) or _TOKEN_LEAD.match(value) is None:
            return
        time = cluster_time_of(value)
        known = self.condition
        if isinstance(condition, (*_EQUAL, *_LOWER)):
            known = replace(known, after=max(known.after, time - 1))
        if isinstance(condition, (*_EQUAL, *_UPPER)):
            known = replace(known, through=min(known.through, time))
        self.condition = known
