"""Pipelines that are nothing but a find, as whose plan explain shows them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.reads.requests.find_request import FindRequest

_ORDER: Final = ("$match", "$sort", "$skip", "$limit", "$project")


def as_find(stages: Sequence[Mapping[str, Any]], request: AggregateRequest) -> FindRequest | None:
    """The find that a pipeline amounts to; None if it does more."""
    matches: list[Any] = []
    given: dict[str, Any] = {}
    place = 0
    for stage in stages:
        ((name, spec),) = stage.items()
        if name not in _ORDER[place:] or (name in given and name != "$match"):
            return None
        place = _ORDER.index(name)
        given[name] = spec
        if name == "$match":
            matches.append(spec)
    return FindRequest(
        query=matches[0] if len(matches) == 1 else {"$and": matches} if matches else {},
        sort=given.get("$sort", {}),
        skip=int(given.get("$skip", 0)),
        limit=int(given.get("$limit", 0)),
        projection=_projection(given.get("$project", {})),
        hint=request.hint,
        collation=request.collation,
        let=request.let,
    )


def _projection(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with flags for what it includes and excludes, and with its `_id`."""
    if not spec:
        return {}
    flags = {
        name: bool(value) if isinstance(value, bool | int | float) else value for name, value in spec.items()
    }
    excludes = all(value is False for value in flags.values())
    return flags if "_id" in flags or excludes else {"_id": True, **flags}
