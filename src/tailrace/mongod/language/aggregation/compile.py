"""Compile a client's pipeline."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.output import MergeTarget, Output, OutTarget
from tailrace.mongod.language.aggregation.pipeline import Namespace, Pipeline
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Place, Stage, StageType
from tailrace.mongod.language.aggregation.stage_table import STAGES
from tailrace.mongod.language.aggregation.stages.limit_skip import checked_limit, checked_skip
from tailrace.query.expressions.operands import type_name
from tailrace.query.stage_names import is_stage

_MAX_STAGES: Final = 1000
_REFUSED_BY_HOLDER: Final = {"$facet": 40600, "$lookup": 51047, "$unionWith": 31441}


class _NamedStage(NamedTuple):
    name: str
    spec: Any


def compile_pipeline(stages: Sequence[Any], context: PipelineContext) -> Pipeline:
    """Compile a pipeline; raises for every fault that does not depend on documents.

    >>> context = PipelineContext("test", "numbers")
    >>> pipeline = compile_pipeline([{"$match": {"n": {"$gt": 1}}}, {"$count": "many"}], context)
    >>> from tailrace.bson.documents import decode, encode
    >>> [decode(raw) for raw in pipeline.run(encode({"n": n}) for n in range(5))]
    [{'many': 3}]
    """
    named = [_single_stage(stage) for stage in stages]
    if len(named) > _MAX_STAGES:
        raise CommandError(7749501, f"Pipeline length must be no longer than {_MAX_STAGES} stages")
    types = [_stage_type(stage.name) for stage in named]
    for position, (stage, kind) in enumerate(zip(named, types, strict=True)):
        _check_place(stage.name, kind, position, len(named), context)
    _check_collection(named, types, context)
    foreign: set[Namespace] = set()
    compiled: list[Stage] = []
    output: Output | None = None
    for position, (stage, kind) in enumerate(zip(named, types, strict=True)):
        scope = StageScope(context, compile_pipeline, _wanted(named[position + 1 :]), foreign)
        result = kind.compile(stage.name, stage.spec, scope)
        if isinstance(result, OutTarget | MergeTarget):
            output = result
        else:
            compiled.append(result)
    brings_documents = bool(types) and types[0].brings_documents
    return Pipeline(compiled, not brings_documents, output, frozenset(foreign))


def _single_stage(stage: Any) -> _NamedStage:
    if not isinstance(stage, Mapping):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"Each element of the 'pipeline' array must be an object, not {type_name(stage)}",
        )
    if len(stage) != 1:
        raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
    ((name, spec),) = stage.items()
    return _NamedStage(name, spec)


def _stage_type(name: str) -> StageType:
    kind = STAGES.get(name)
    if kind is not None:
        return kind
    if is_stage(name):
        raise CommandError(ErrorCode.CommandNotSupported, f"the stage {name} is not supported")
    raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")


def _check_place(name: str, kind: StageType, position: int, count: int, context: PipelineContext) -> None:
    holder = context.holder
    if holder is not None and holder in kind.refused_in:
        inside = f"a {holder} stage" if holder == "$facet" else f"a {holder}'s sub-pipeline"
        raise CommandError(_REFUSED_BY_HOLDER[holder], f"{name} is not allowed to be used within {inside}")
    if kind.place is Place.FIRST and position:
        raise CommandError(40602, f"{name} is only valid as the first stage in a pipeline")
    if kind.place is Place.LAST and position != count - 1:
        raise CommandError(40601, f"{name} can only be the final stage in the pipeline")
    if context.in_transaction and not kind.in_transaction:
        raise CommandError(
            ErrorCode.OperationNotSupportedInTransaction,
            f"Stage not supported inside of a multi-document transaction: {name}",
        )


def _check_collection(
    stages: Sequence[_NamedStage], types: Sequence[StageType], context: PipelineContext
) -> None:
    """Check that a collection is given exactly if the first stage needs one."""
    first = stages[0].name if stages else None
    if types and types[0].is_collectionless:
        if context.collection is not None:
            raise CommandError(
                ErrorCode.InvalidNamespace,
                f"{first} must be run with {{aggregate: 1}}, not on a collection",
            )
    elif context.collection is None and context.holder is None:
        what = "an empty pipeline" if first is None else f"'{first}'; a collection is required"
        raise CommandError(ErrorCode.InvalidNamespace, f"{{aggregate: 1}} is not valid for {what}.")


def _wanted(following: Sequence[_NamedStage]) -> int | None:
    """How many documents the following stages take: a `$limit` there, plus what is skipped before it."""
    skipped = 0
    for name, spec in following:
        if name == "$limit":
            return skipped + checked_limit(name, spec)
        if name != "$skip":
            return None
        skipped += checked_skip(name, spec)
    return None


class LeadingMatch(NamedTuple):
    """The filter at the beginning of a pipeline, which the reader can apply with an index, and the rest."""

    filter: dict[str, Any]
    """Empty if the pipeline does not begin with a `$match`"""
    stages: list[Any]


def leading_match(stages: Sequence[Any]) -> LeadingMatch:
    """Split the leading `$match` stages from a pipeline; a malformed one is left for the compiler.

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
