"""What of a pipeline a reader of the collection can do itself, with an index."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class LeadingMatch(NamedTuple):
    """The filter that a pipeline begins with, and the rest of it."""

    filter: dict[str, Any]
    """Empty if the pipeline does not begin with a `$match`."""
    stages: list[Any]


def leading_match(stages: Sequence[Any]) -> LeadingMatch:
    """Take the `$match` stages from the beginning of a pipeline; a malformed one is left for the compiler.

    >>> leading_match([{"$match": {"a": 1}}, {"$match": {"b": 2}}, {"$limit": 3}])
    LeadingMatch(filter={'$and': [{'a': 1}, {'b': 2}]}, stages=[{'$limit': 3}])
    """
    filters: list[dict[str, Any]] = []
    for stage in stages:
        if not isinstance(stage, Mapping) or len(stage) != 1 or not isinstance(stage.get("$match"), Mapping):
            break
        filters.append(dict(stage["$match"]))
    combined = filters[0] if len(filters) == 1 else {"$and": filters} if filters else {}
    return LeadingMatch(combined, list(stages[len(filters) :]))
