"""The first pass over a pipeline: names, and the few checks that come before any stage is compiled.

It covers the pipelines inside stages, too. A fault that is found here is reported before one that only
compiling a stage shows, wherever the two are in the pipeline.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tailrace.bson.repeated import repeated_field
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.scope import PipelineContext
from tailrace.mongod.language.aggregation.stage import StageType
from tailrace.mongod.language.aggregation.stage_table import INTERNAL, STAGES
from tailrace.query.expressions.operands import type_name
from tailrace.query.stage_names import is_stage

_MAX_STAGES: Final = 1000
_MAX_DEPTH: Final = 20
_INTERNAL_STAGE: Final = 5491300


class NamedStage(NamedTuple):
    """A stage whose name is known."""

    name: str
    spec: Any
    kind: StageType


def check_stage_names(stages: Sequence[Any], has_stage: Callable[[str], bool]) -> None:
    """Raise for the first stage that is not one, or that does not exist, up to one with further checks."""
    for stage in stages:
        if _stage_type(single_stage(stage)[0], has_stage).check is not None:
            return


def read_stages(stages: Sequence[Any], context: PipelineContext) -> list[NamedStage]:
    """The stages by name; raises for every fault that the first pass finds."""
    found = _read(stages, context, 0)
    if context.holder is None:
        _refuse_internal(stages)
    return found


def _read(stages: Sequence[Any], context: PipelineContext, depth: int) -> list[NamedStage]:
    found = []
    for stage in stages:
        name, spec = single_stage(stage)
        kind = _stage_type(name, context.has_stage)
        if kind.check is not None:
            kind.check(name, spec, context)
        if depth < _MAX_DEPTH:
            for inner in _pipelines_in(name, spec):
                _read(inner, context, depth + 1)
        found.append(NamedStage(name, spec, kind))
    if len(found) > _MAX_STAGES:
        raise CommandError(7749501, f"Pipeline length must be no longer than {_MAX_STAGES} stages")
    return found


def single_stage(stage: Any) -> tuple[str, Any]:
    """The name and the specification of a stage."""
    if not isinstance(stage, Mapping):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"Each element of the 'pipeline' array must be an object, not {type_name(stage)}",
        )
    if len(stage) != 1 or repeated_field(stage) is not None:
        raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
    ((name, spec),) = stage.items()
    return name, spec


def _stage_type(name: str, has_stage: Callable[[str], bool]) -> StageType:
    kind = STAGES.get(name)
    if kind is not None and has_stage(name):
        return kind
    if is_stage(name) and has_stage(name):
        raise CommandError(ErrorCode.CommandNotSupported, f"the stage {name} is not supported")
    raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")


def _refuse_internal(stages: Sequence[Any]) -> None:
    """Refuse stages that only servers send to each other."""
    for stage in stages:
        name, spec = single_stage(stage)
        if name in INTERNAL:
            raise CommandError(_INTERNAL_STAGE, f"{name} is not allowed in user requests")
        for inner in _pipelines_in(name, spec):
            _refuse_internal(inner)


def _pipelines_in(name: str, spec: Any) -> Iterator[list[Any]]:
    if isinstance(spec, Mapping):
        if name == "$facet":
            yield from (inner for inner in spec.values() if isinstance(inner, list))
        elif name in ("$lookup", "$unionWith") and isinstance(spec.get("pipeline"), list):
            yield spec["pipeline"]
