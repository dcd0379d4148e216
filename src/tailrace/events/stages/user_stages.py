"""Stage 12: the user's own pipeline.

Few stages may follow `$changeStream`. Filters decide about an event and let its bytes through; stages that
reshape it work on the decoded event and may change everything but its `_id`: streams are resumed with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tailrace.bson.compare import equal
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout import event as events
from tailrace.events.layout.fields import Shape
from tailrace.events.stages.rewrites.reordering import UserStage
from tailrace.events.stages.stage import Batch, Row
from tailrace.events.stream_release import SPLIT
from tailrace.pacing import with_ticks
from tailrace.query.collation import Collation
from tailrace.query.expressions.scope import ConstantError
from tailrace.query.placed import in_places
from tailrace.query.reshape import compile_stage
from tailrace.query.stage_names import is_stage

ALLOWED: Final = frozenset({
    "$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact",
})  # fmt: skip
BARRIERS: Final = frozenset({"$_internalInhibitOptimization", "$_internalShredDocuments"})
"""Stages that pass events on as they are; a filter after one is not a leading one."""
_SETTING: Final = ("$addFields", "$set", "$replaceRoot", "$replaceWith")
# Codes of a $changeStream inside the pipelines of a stage, which come before that of the stage.
_NESTED_STREAM: Final = {"$facet": 40600, "$lookup": 51047, "$unionWith": 31441}

Reshape: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]


def read_pipeline(pipeline: Sequence[Any], *, on_router: bool = False) -> tuple[list[UserStage], bool]:
    """Return the user's stages, and whether large events are to be split; checks names and places.

    >>> read_pipeline([{"$match": {"operationType": "insert"}}, {"$changeStreamSplitLargeEvent": {}}])
    ([('$match', {'operationType': 'insert'})], True)
    """
    stages: list[UserStage] = []
    splits = False
    for position, stage in enumerate(pipeline):
        if not isinstance(stage, Mapping):
            raise CommandError(ErrorCode.TypeMismatch, f"stage {position} of the pipeline is not a document")
        if len(stage) != 1:
            raise CommandError(40323, f"stage {position} of the pipeline must have exactly one field")
        ((name, spec),) = stage.items()
        if name == SPLIT:
            if not isinstance(spec, Mapping):
                raise CommandError(7182899, f"{SPLIT} takes a document")
            if spec:
                raise CommandError(7182800, f"{SPLIT} takes an empty document")
            if position != len(pipeline) - 1:
                raise CommandError(7182802, f"{SPLIT} must be the last stage of the pipeline")
            splits = True
        elif name in ALLOWED or name in BARRIERS:
            stages.append((name, spec))
        elif name == "$fill" and may_follow(name, spec):
            values = {path: {"$ifNull": [f"${path}", fill["value"]]} for path, fill in spec["output"].items()}
            stages.append(("$addFields", values))
        elif name == "$changeStream":
            raise CommandError(40602, "$changeStream is only valid as the first stage of a pipeline")
        else:
            raise _refused(name, spec, on_router=on_router)
    return stages, splits


def may_follow(name: str, spec: Any) -> bool:
    """Whether a change stream may have a stage; the server runs a `$fill` with values as `$addFields`."""
    if name == "$fill":
        outputs = spec.get("output") if isinstance(spec, Mapping) else None
        return isinstance(outputs, Mapping) and all(
            isinstance(fill, Mapping) and "value" in fill for fill in outputs.values()
        )
    return name in ALLOWED or name in BARRIERS or name == SPLIT


def _refused(name: str, spec: Any, *, on_router: bool) -> CommandError:
    if not is_stage(name):
        return CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")
    if on_router and name.startswith("$_internal"):
        return CommandError(50988, f"the stage {name} is internal; a router does not accept it from clients")
    if name in _NESTED_STREAM and _holds_stream(spec):
        return CommandError(_NESTED_STREAM[name], f"$changeStream is not allowed inside {name}")
    return CommandError(
        ErrorCode.IllegalOperation, f"the stage {name} is not permitted in a $changeStream pipeline"
    )


def _holds_stream(spec: Any) -> bool:
    """Whether one of the pipelines in a stage's specification has the stage `$changeStream`."""
    pipelines = spec.values() if isinstance(spec, Mapping) else ()
    stages = [stage for pipeline in pipelines if isinstance(pipeline, list) for stage in pipeline]
    return any(isinstance(stage, Mapping) and "$changeStream" in stage for stage in stages)


def leading_match(stages: Sequence[UserStage]) -> tuple[dict[str, Any] | None, list[UserStage]]:
    """Return the `$match` stages at the beginning of a pipeline as one filter, and what follows them."""
    count = 0
    while count < len(stages) and stages[count][0] == "$match":
        count += 1
    return _conjunction([dict(spec) for _, spec in stages[:count]]), list(stages[count:])


def _conjunction(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"$and": parts}


class UserStages:
    """Filters and reshapes rows by the user's stages."""

    def __init__(
        self,
        stages: Sequence[UserStage],
        shape: Shape,
        variables: Mapping[str, Any],
        collation: Collation | None = None,
        *,
        keeps_ids: bool = True,
    ) -> None:
        """With ``keeps_ids``, an event whose `_id` was changed or removed is an error."""
        self._shape = shape
        self._stages = self._compiled(stages, variables, collation)
        self._reshapes = any(name != "$match" and name not in BARRIERS for name, _ in stages)
        self._sets_fields = any(name in _SETTING for name, _ in stages)
        self._keeps_ids = keeps_ids

    def _compiled(
        self, stages: Sequence[UserStage], variables: Mapping[str, Any], collation: Collation | None
    ) -> list[Reshape]:
        compiled: list[Reshape] = []
        failure: ConstantError | None = None
        for name, spec in stages:
            try:
                if name not in BARRIERS:
                    compiled.append(
                        compile_stage(
                            name,
                            spec,
                            variables=variables,
                            collation=collation,
                            dialect=self._shape.release.dialect,
                            reads_whole=True,
                        )
                    )
            except ConstantError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return compiled

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        kept: list[Row] = []
        try:
            for row in with_ticks(batch.items):
                document = self._run(decode(row.raw), row.event)
                if document is None:
                    continue
                if self._reshapes:
                    if self._keeps_ids:
                        _check_id(document, row)
                    row.raw = encode(document)
                kept.append(row)
        except CommandError as error:
            return batch.having(kept, error)
        return batch.having(kept)

    def _run(self, document: dict[str, Any] | None, event: ChangeEvent) -> dict[str, Any] | None:
        if self._sets_fields and document is not None:
            # The fields that this event does not show have a place, where a stage may put something.
            document = in_places(document, events.layout.places(event, self._shape, document))
        try:
            for stage in self._stages:
                if document is None:
                    return None
                document = stage(document)
        except RecursionError:
            raise BsonError("an event is nested too deeply") from None
        return document


def _check_id(document: Mapping[str, Any], row: Row) -> None:
    token = decode(row.token_document)
    if "_id" not in document or not equal(document["_id"], token):
        raise CommandError(
            ErrorCode.ChangeStreamFatalError,
            "the pipeline removed or changed the _id of an event, its resume token; it must stay as it is",
        )
