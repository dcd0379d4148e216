"""The options of `aggregate`, read and checked."""

from dataclasses import dataclass
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.query.expressions.operands import is_string

_WITHOUT_EFFECT: Final = (
    "allowDiskUse", "runtimeConstants", "legacyRuntimeConstants", "querySettings", "isMapReduceCommand",
    "includeQueryStatsMetrics",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    named: str | None
    """The collection; None for `{aggregate: 1}`."""
    pipeline: list[dict[str, Any]]
    batch_size: int | None = None
    explain: bool = False
    bypasses_validation: bool = False
    hint: str | dict[str, Any] | None = None
    collation: dict[str, Any] | None = None
    let: dict[str, Any] | None = None
    collection_uuid: bytes | None = None
    raw_data: bool = False

    @classmethod
    def parse(cls, arguments: Arguments, *, is_explained: bool = False) -> "AggregateRequest":
        """Read the fields of a command; with explain it needs no `cursor`."""
        named = arguments.value("aggregate")
        pipeline = arguments.array("pipeline")
        for stage in pipeline:
            if not isinstance(stage, dict):
                raise CommandError(
                    ErrorCode.TypeMismatch, "Each element of the 'pipeline' array must be an object"
                )
        explain = arguments.boolean("explain", False) or is_explained
        has_cursor = arguments.has("cursor")
        cursor = arguments.nested("cursor")
        batch_size = None
        if cursor is not None:
            batch_size = cursor.integer("batchSize", None, minimum=0)
            cursor.finish()
        request = cls(
            named=_checked_name(named),
            pipeline=pipeline,
            batch_size=batch_size,
            explain=explain,
            bypasses_validation=arguments.boolean("bypassDocumentValidation", False),
            hint=arguments.value("hint", None) or None,
            collation=arguments.document("collation", None),
            let=arguments.document("let", None),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
        )
        arguments.ignore(*_WITHOUT_EFFECT)
        arguments.finish()
        check_hint(request.hint)
        if not has_cursor and not explain:
            raise CommandError(
                ErrorCode.FailedToParse,
                "The 'cursor' option is required, except for aggregate with the explain argument",
            )
        return request


def _checked_name(named: Any) -> str | None:
    if is_string(named):
        return named
    if isinstance(named, int | float) and not isinstance(named, bool):
        if named == 1:
            return None
        raise CommandError(
            ErrorCode.BadValue,
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )
    raise CommandError(ErrorCode.TypeMismatch, "collection name has invalid type")
