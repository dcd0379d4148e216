"""Where a pipeline's results go if they do not go to the client."""

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
    """Options of the time-series collection to make, if it is to be one."""


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """`$merge`: each result is written into a collection by the fields it has in common with it."""

    database: str
    collection: str
    on: tuple[str, ...]
    """The fields that tell which document is meant; a unique index must be on them."""
    when_matched: str | Sequence[Mapping[str, Any]]
    """replace, keepExisting, merge, fail, or the stages of a pipeline that updates the matching document."""
    when_not_matched: str
    """insert, discard or fail."""
    variables_for: Callable[[Document], dict[str, Any]]
    """The variables of that pipeline for a result: ``new`` is the result itself."""


Output: TypeAlias = OutTarget | MergeTarget
