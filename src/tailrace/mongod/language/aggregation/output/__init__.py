"""The targets of `$out` and `$merge`: where a pipeline's results are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.mongod.language.aggregation.rows import Document


@dataclass(frozen=True, slots=True)
class OutTarget:
    """`$out`: the results replace a collection."""

    database: str
    collection: str
    timeseries: Mapping[str, Any] | None = None
    """Options of a time-series collection to create"""


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """`$merge`: each result is merged into the document of a collection that has the same key fields."""

    database: str
    collection: str
    on: tuple[str, ...]
    """The key fields, which must have a unique index"""
    when_matched: str | Sequence[Mapping[str, Any]]
    """replace, keepExisting, merge, fail, or the stages of a pipeline that updates the matching document"""
    when_not_matched: str
    """insert, discard or fail"""
    variables_for: Callable[[Document], dict[str, Any]]
    """The variables of that pipeline for a result: ``new`` is the result"""


Output: TypeAlias = OutTarget | MergeTarget
