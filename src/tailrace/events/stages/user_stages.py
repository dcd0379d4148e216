"""Stage 12: the user's own pipeline.

Few stages may follow `$changeStream`. Filters decide about an event and let its bytes through; stages that
reshape it work on the decoded event and may change everything but its `_id`: streams are resumed with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tailrace.bson.compare import equal
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError
from tailrace.events.stages.stage import Batch, Row
from tailrace.query.collation import Collation
from tailrace.query.reshape import compile_stage
from tailrace.query.stage_names import is_stage

ALLOWED: Final = frozenset({
    "$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact",
})  # fmt: skip
SPLIT: Final = "$changeStreamSplitLargeEvent"
# Codes of a $changeStream inside the pipelines of a stage, which come before that of the stage.
_NESTED_STREAM: Final = {"$facet": 40600, "$lookup": 51047, "$unionWith": 31441}

UserStage: TypeAlias = tuple[str, Any]
"""(name, specification)"""
Reshape: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]


def read_pipeline(pipeline: Sequence[Any], *, on_router: bool = False) -> tuple[list[UserStage], bool]:
    """Return the user's stages, and whether large events are to be split; checks names and places.

    >>> read_pipeline([{"$match": {"operationType": "insert"}}, {"$changeStreamSplitLargeEvent": {}}])
    ([('$match', {'operationType': 'insert'})], True)
    """
    stages: list[UserStage] = []
    splits = False
    for position, stage in enumerate(pipeline):
        if not isinstance(stage, Mapping) or len(stage) != 1:
            raise CommandError(
                40323, f"stage {position} of the pipeline is not a document with exactly one field"
            )
        ((name, spec),) = stage.items()
        if name == SPLIT:
            if not isinstance(spec, Mapping) or spec:
                raise CommandError(7182800, f"{SPLIT} takes an empty document")
            if position != len(pipeline) - 1:
                raise CommandError(7182802, f"{SPLIT} must be the last stage of the pipeline")
            splits = True
        elif name in ALLOWED:
            stages.append((name, spec))
        elif name == "$changeStream":
            raise CommandError(40602, "$changeStream is only valid as the first stage of a pipeline")
        else:
            raise _refused(name, spec, on_router=on_router)
    return stages, splits


def _refused(name: str, spec: Any, *, on_router: bool) -> CommandError:
    if not is_stage(name):
        return CommandError(40324, f"unrecognised pipeline stage name: {name!r}")
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


def split_by_images(user_filter: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Divide a filter into the part that does not need images and the part that does.

    The first runs before images are looked up, so that no image is required for an event that is dropped.
    """
    conjuncts = list(_conjuncts(user_filter))
    free = [part for part in conjuncts if not _touches_images(part)]
    bound = [part for part in conjuncts if _touches_images(part)]
    return _conjunction(free), _conjunction(bound)


def _conjuncts(user_filter: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The conditions that all have to hold."""
    for name, condition in user_filter.items():
        if name == "$and":
            for part in condition:
                yield from _conjuncts(part)
        elif name == "$nor":
            yield from ({name: [part]} for part in condition)
        else:
            yield {name: condition}


def _conjunction(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _touches_images(user_filter: Mapping[str, Any]) -> bool:
    for name, condition in user_filter.items():
        if name.startswith("fullDocument"):
            return True
        if name == "$expr" and _mentions_images(condition):
            return True
        if name in ("$and", "$or", "$nor") and any(_touches_images(part) for part in condition):
            return True
        if name.startswith("$") and name not in ("$and", "$or", "$nor", "$expr", "$comment"):
            return True
    return False


def _mentions_images(expression: Any) -> bool:
    if isinstance(expression, Mapping):
        # $getField names its field without a dollar, and may compute the name.
        return "$getField" in expression or any(_mentions_images(value) for value in expression.values())
    if isinstance(expression, list):
        return any(_mentions_images(value) for value in expression)
    return isinstance(expression, str) and expression.startswith(("$fullDocument", "$$ROOT", "$$CURRENT"))


class UserStages:
    """Filters and reshapes rows by the user's stages."""

    def __init__(
        self,
        stages: Sequence[UserStage],
        variables: Mapping[str, Any],
        collation: Collation | None = None,
        *,
        keeps_ids: bool = True,
    ) -> None:
        """With ``keeps_ids``, an event whose `_id` was changed or removed is an error."""
        self._stages: list[Reshape] = [
            compile_stage(name, spec, variables=variables, collation=collation) for name, spec in stages
        ]
        self._reshapes = any(name != "$match" for name, _ in stages)
        self._keeps_ids = keeps_ids

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        kept: list[Row] = []
        try:
            for row in batch.items:
                document = self._run(decode(row.raw))
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

    def _run(self, document: dict[str, Any]) -> dict[str, Any] | None:
        try:
            for stage in self._stages:
                result = stage(document)
                if result is None:
                    return None
                document = result
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
