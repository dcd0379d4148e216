"""Updates that are an aggregation pipeline of stages that reshape one document."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, Timestamp

from tailrace.bson.repeated import repeated_field
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.document_checks import check_depth
from tailrace.mongod.language.update.operator import CompileOptions, UpdateContext, UpdateResult
from tailrace.mongod.language.update.oplog_update import NAME as APPLY_OPLOG_UPDATE
from tailrace.mongod.language.update.oplog_update import compile_oplog_update
from tailrace.mongod.language.update.replacement import whole_document_result
from tailrace.query.reshape import compile_stage
from tailrace.query.stage_names import is_stage

Stage: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]

_STAGES: Final = frozenset(
    {"$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith", APPLY_OPLOG_UPDATE}
)


class PipelineUpdate:
    """A compiled update pipeline."""

    def __init__(self, stages: list[Any], options: CompileOptions) -> None:
        self._specs = check_stages(stages)
        for name, _ in self._specs:
            if name not in _STAGES:
                raise CommandError(
                    ErrorCode.InvalidOptions, f"{name} is not allowed to be used within an update"
                )
        self._options = options
        self._compiled_for: tuple[DatetimeMS, Timestamp] = (DatetimeMS(0), Timestamp(0, 0))
        self._stages = self._compile(*self._compiled_for)

    def apply(self, context: UpdateContext) -> UpdateResult:
        """The document after all stages; without ``_id`` it keeps the old one."""
        time = (context.now, context.cluster_time)
        if time != self._compiled_for:
            # $$NOW and $$CLUSTER_TIME are constants of one command, which may update many documents.
            self._stages = self._compile(*time)
            self._compiled_for = time
        document = context.original
        for stage in self._stages:
            result = stage(document)
            assert result is not None, "a stage that an update allows never drops the document"
            document = result
        check_depth(document, 0)
        return whole_document_result(context, document, is_replacement=False)

    def _compile(self, now: DatetimeMS, cluster_time: Timestamp) -> list[Stage]:
        variables = {**(self._options.variables or {}), "NOW": now, "CLUSTER_TIME": cluster_time}
        return [
            compile_oplog_update(spec)
            if name == APPLY_OPLOG_UPDATE
            else compile_stage(name, spec, variables=variables, collation=self._options.collation)
            for name, spec in self._specs
        ]


def check_stages(stages: list[Any]) -> list[tuple[str, Any]]:
    """The stages by name, each with its specification; refuses what is no stage of any pipeline."""
    return [_single_stage(stage) for stage in stages]


def _single_stage(stage: Any) -> tuple[str, Any]:
    if not isinstance(stage, Mapping):
        raise CommandError(ErrorCode.TypeMismatch, "Each element of the 'pipeline' array must be an object")
    if len(stage) != 1 or repeated_field(stage) is not None:
        raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
    ((name, spec),) = stage.items()
    if not is_stage(name):
        raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")
    return name, spec
