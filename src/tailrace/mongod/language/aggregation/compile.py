"""Compile a client's pipeline."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.stages.user_stages import may_follow
from tailrace.events.stream_release import SPLIT
from tailrace.mongod.language.aggregation.first_pass import NamedStage, read_stages
from tailrace.mongod.language.aggregation.output import MergeTarget, Output, OutTarget
from tailrace.mongod.language.aggregation.pipeline import Namespace, Pipeline
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Place, Stage
from tailrace.mongod.language.aggregation.stages.limit_skip import checked_limit, checked_skip
from tailrace.query.expressions.scope import ConstantError

_READ_COLLECTIONS: Final = ("$lookup", "$unionWith")
_REFUSED_BY_HOLDER: Final = {"$facet": 40600, "$lookup": 51047, "$unionWith": 31441}


def compile_pipeline(stages: Sequence[Any], context: PipelineContext) -> Pipeline:
    """Compile a pipeline; raises for every fault that does not depend on documents.

    Faults of single stages come first, then whether the stages fit together, then those of constants.

    >>> context = PipelineContext("test", "numbers")
    >>> pipeline = compile_pipeline([{"$match": {"n": {"$gt": 1}}}, {"$count": "many"}], context)
    >>> from tailrace.bson.documents import decode, encode
    >>> [decode(raw) for raw in pipeline.run(encode({"n": n}) for n in range(5))]
    [{'many': 3}]
    """
    named = read_stages(stages, context)
    if context.in_transaction:
        _check_transaction(named)
    foreign: set[Namespace] = set()
    compiled: list[Stage] = []
    output: Output | None = None
    failure: ConstantError | None = None
    # Those of a command's own pipeline are not compiled here, but with the query (`leading_match`).
    is_query = context.holder in _READ_COLLECTIONS and context.collection is not None
    for position, stage in enumerate(named):
        is_query = is_query and stage.name == "$match"
        wanted = _wanted(named[position + 1 :])
        scope = StageScope(context, compile_pipeline, wanted, foreign, is_query=is_query)
        try:
            result = stage.kind.compile(stage.name, stage.spec, scope)
        except ConstantError as error:
            failure = failure or error
            continue
        if isinstance(result, OutTarget | MergeTarget):
            output = result
        else:
            compiled.append(result)
    _check_collection(named, context)
    _check_stream(named)
    if any(stage.name == SPLIT for stage in named[:-1]):
        raise CommandError(7182802, f"{SPLIT} must be the last stage in the pipeline")
    for position, stage in enumerate(named):
        _check_place(stage, position, len(named), context)
    if failure is not None:
        raise failure
    brings_documents = bool(named) and named[0].kind.brings_documents
    return Pipeline(compiled, not brings_documents, output, frozenset(foreign))


def _check_transaction(stages: Sequence[NamedStage]) -> None:
    for stage in stages:
        if not stage.kind.in_transaction:
            raise CommandError(
                ErrorCode.OperationNotSupportedInTransaction,
                f"Stage not supported inside of a multi-document transaction: {stage.name}",
            )


def _check_stream(stages: Sequence[NamedStage]) -> None:
    """Refuse stages that a change stream may not have, and those that only a change stream may have."""
    if not stages or stages[0].name != "$changeStream":
        if any(stage.name == SPLIT for stage in stages):
            raise CommandError(
                ErrorCode.IllegalOperation, f"{SPLIT} can only be used in a $changeStream pipeline"
            )
        return
    for stage in stages[1:]:
        if stage.name != "$changeStream" and not may_follow(stage.name, stage.spec):
            raise CommandError(
                ErrorCode.IllegalOperation, f"{stage.name} is not permitted in a $changeStream pipeline"
            )


def _check_place(stage: NamedStage, position: int, count: int, context: PipelineContext) -> None:
    name, kind = stage.name, stage.kind
    holder = context.holder
    if holder is not None and holder in kind.refused_in:
        inside = f"a {holder} stage" if holder == "$facet" else f"a {holder}'s sub-pipeline"
        raise CommandError(_REFUSED_BY_HOLDER[holder], f"{name} is not allowed to be used within {inside}")
    if kind.place is Place.FIRST and position:
        raise CommandError(40602, f"{name} is only valid as the first stage in a pipeline")
    if kind.place is Place.LAST and position != count - 1:
        raise CommandError(40601, f"{name} can only be the final stage in the pipeline")


def _check_collection(stages: Sequence[NamedStage], context: PipelineContext) -> None:
    """Check that a collection is given exactly if the first stage needs one."""
    first = stages[0].name if stages else None
    if stages and stages[0].kind.is_collectionless:
        if context.collection is not None:
            raise CommandError(
                ErrorCode.InvalidNamespace,
                f"{first} must be run with {{aggregate: 1}}, not on a collection",
            )
    elif context.collection is None and context.holder is None and first != "$changeStream":
        what = "an empty pipeline" if first is None else f"'{first}'; a collection is required"
        raise CommandError(ErrorCode.InvalidNamespace, f"{{aggregate: 1}} is not valid for {what}.")


def _wanted(following: Sequence[NamedStage]) -> int | None:
    """How many documents the following stages take: a `$limit` there, plus what is skipped before it.

    None, too, if one of them is faulty: its own compilation reports that.
    """
    skipped = 0
    try:
        for name, spec, _ in following:
            if name == "$limit":
                return skipped + checked_limit(name, spec)
            if name != "$skip":
                return None
            skipped += checked_skip(name, spec)
    except CommandError:
        return None
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
