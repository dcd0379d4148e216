"""What an aggregation needs: rights on every collection that its stages read or write."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.mongod.server.access.needs import Right, Rights, on_named, text_of
from tailrace.mongod.server.access.privileges import ALL_DATABASES, CLUSTER, namespace

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

_ON_COLLECTION: Final = {
    "$collStats": "collStats",
    "$indexStats": "indexStats",
    "$planCacheStats": "planCacheRead",
}
"""First stages that show something else than the documents: what they need instead of find."""
_OF_USERS: Final = {
    "$currentOp": "inprog",
    "$listSessions": "listSessions",
    "$listLocalSessions": "listSessions",
}
"""First stages that show what belongs to users: what they need to show others than the own."""
_ON_CLUSTER: Final = {
    "$shardedDataDistribution": "shardedDataDistribution",
    "$queryStats": "queryStatsRead",
}
_OTHERS: Final = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}
"""Stages that read another collection, and the field that names it."""
_WITHOUT_SOURCE: Final = frozenset({"$documents"})


def aggregate_needs(context: "Context") -> Rights:
    """The rights for the command `aggregate`."""
    command = context.command
    named, pipeline = command.get(context.name), command.get("pipeline")
    stages = [stage for stage in (pipeline if isinstance(pipeline, list) else ()) if isinstance(stage, dict)]
    first, spec = _operator(stages[0]) if stages else ("", None)
    if first == "$changeStream":
        yield _stream(context, named, spec)
    elif first in _OF_USERS:
        if _shows_others(context, spec):
            yield Right(CLUSTER, (_OF_USERS[first],))
    elif first in _ON_CLUSTER:
        yield Right(CLUSTER, (_ON_CLUSTER[first],))
    elif first == "$listCatalog":
        place = namespace(context.database, text_of(named)) if text_of(named) else ALL_DATABASES
        yield Right(place, ("listCollections", "listIndexes"))
    elif first not in _WITHOUT_SOURCE:
        yield from on_named(context, named, _ON_COLLECTION.get(first, "find"))
    bypasses = bool(command.get("bypassDocumentValidation"))
    yield from stages_need(context.database, stages, bypasses_validation=bypasses)


def stages_need(database: str, stages: Any, *, bypasses_validation: bool = False) -> Iterator[Right]:
    """The rights on other collections than the one that a pipeline begins with."""
    for stage in stages if isinstance(stages, list) else ():
        if not isinstance(stage, dict):
            continue
        operator, spec = _operator(stage)
        if operator in _OTHERS:
            fields = spec if isinstance(spec, dict) else {_OTHERS[operator]: spec}
            inner = fields.get("pipeline")
            yield from _source(database, fields.get(_OTHERS[operator]), inner)
            yield from _sub_pipeline_needs(database, inner)
        elif operator == "$facet" and isinstance(spec, dict):
            for inner in spec.values():
                yield from _sub_pipeline_needs(database, inner)
        elif operator in ("$out", "$merge"):
            yield _output(database, operator, spec, bypasses_validation=bypasses_validation)
        elif operator.startswith("$_internal"):
            yield Right(CLUSTER, ("internal",))


def _sub_pipeline_needs(database: str, stages: Any) -> Iterator[Right]:
    """The same, and the rights to what belongs to users: sub-pipelines show everybody's."""
    for stage in stages if isinstance(stages, list) else ():
        operator = _operator(stage)[0] if isinstance(stage, dict) else ""
        action = _OF_USERS.get(operator) or _ON_CLUSTER.get(operator)
        if action is not None:
            yield Right(CLUSTER, (action,))
    yield from stages_need(database, stages)


def _stream(context: "Context", named: Any, spec: Any) -> Right:
    actions = ("find", "changeStream")
    if isinstance(spec, dict) and spec.get("allChangesForCluster"):
        return Right(ALL_DATABASES, actions)
    return Right(namespace(context.database, text_of(named)), actions)


def _shows_others(context: "Context", spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    if spec.get("allUsers"):
        return True
    own = None if context.client.user is None else context.client.user.principal
    users = spec.get("users")
    return isinstance(users, list) and any(own is None or user != own.to_document("user") for user in users)


def _source(database: str, named: Any, pipeline: Any) -> Iterator[Right]:
    """The right to read the collection of a sub-pipeline; one that begins with documents reads none."""
    if isinstance(named, dict):
        yield Right(namespace(text_of(named.get("db")), text_of(named.get("coll"))), ("find",))
    elif named is not None:
        first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
        operator = _operator(first)[0] if isinstance(first, dict) else ""
        yield Right(namespace(database, text_of(named)), (_ON_COLLECTION.get(operator, "find"),))


def _output(database: str, operator: str, spec: Any, *, bypasses_validation: bool) -> Right:
    into = spec.get("into") if operator == "$merge" and isinstance(spec, dict) else spec
    if isinstance(into, dict):
        target = namespace(text_of(into.get("db", database)), text_of(into.get("coll")))
    else:
        target = namespace(database, text_of(into))
    actions = ("insert", "remove") if operator == "$out" else _merging(spec)
    return Right(target, (*actions, "bypassDocumentValidation") if bypasses_validation else actions)


def _merging(spec: Any) -> tuple[str, ...]:
    fields: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    inserts = fields.get("whenNotMatched", "insert") == "insert"
    updates = fields.get("whenMatched", "merge") != "fail"
    return (*(("insert",) if inserts else ()), *(("update",) if updates else ()))


def _operator(stage: Mapping[str, Any]) -> tuple[str, Any]:
    return next(iter(stage.items()), ("", None))
