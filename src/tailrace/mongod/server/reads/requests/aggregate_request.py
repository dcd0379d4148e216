"""The options of `aggregate`, read and checked."""

from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.fields import (
    CONSTANTS,
    CURSOR_FIELDS,
    ENCRYPTION,
    LATER,
    Fields,
    command,
)
from tailrace.mongod.server.dispatch.kinds import (
    ARRAY,
    FLAG,
    GIVEN_FLAG,
    GIVEN_OBJECT,
    HINT,
    INT,
    LOOSE_FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    UUID,
    Kind,
    at_least,
    given_array_of,
    given_struct,
    struct,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import hint_argument
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.expressions.operands import is_number

_EXCHANGE: Final = Fields(
    {
        "policy": TEXT, "consumers": INT, "orderPreserving": FLAG, "bufferSize": NUMBER, "key": OBJECT,
        "boundaries": ARRAY, "consumerIds": ARRAY,
    },
    required=("policy", "consumers"),
)  # fmt: skip


class _CollectionOrOne(Kind):
    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:  # noqa: ARG002
        _collection_or_one(value)


def _collection_or_one(named: Any) -> str | None:
    """The collection that an aggregation names; None for 1, which stands for all of them."""
    if is_string(named):
        return named
    if is_number(named):
        if integral_value(named) == 1:
            return None
        raise CommandError(
            ErrorCode.FailedToParse,
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )
    raise CommandError(ErrorCode.TypeMismatch, "collection name has invalid type")


AGGREGATE_FIELDS: Final = command(
    {
        "aggregate": _CollectionOrOne(
            lambda value: is_string(value) or is_number(value),
            "[string, number]",
            null_code=ErrorCode.TypeMismatch,
        ),
        "pipeline": given_array_of(GIVEN_OBJECT), "explain": GIVEN_FLAG, "allowDiskUse": GIVEN_FLAG,
        "cursor": given_struct(CURSOR_FIELDS), "bypassDocumentValidation": LOOSE_FLAG, "hint": HINT,
        "collation": OBJECT, "let": OBJECT, "needsMerge": GIVEN_FLAG, "fromMongos": GIVEN_FLAG,
        "isMapReduceCommand": GIVEN_FLAG, "runtimeConstants": CONSTANTS, "legacyRuntimeConstants": CONSTANTS,
        "exchange": struct(_EXCHANGE), "collectionUUID": UUID, "encryptionInformation": ENCRYPTION,
        "$_requestReshardingResumeToken": GIVEN_FLAG, "$_passthroughToShard": OBJECT, "querySettings": OBJECT,
        "includeQueryStatsMetrics": FLAG, "rawData": FLAG, "allowPartialResults": FLAG,
        "maxTimeMS": at_least(0), "readConcern": OBJECT, "$queryOptions": OBJECT,
    },
    required=("pipeline",),
    since=dict.fromkeys(("legacyRuntimeConstants", "querySettings", "includeQueryStatsMetrics"), LATER)
    | dict.fromkeys(("rawData", "allowPartialResults"), ((7, 0, 0),)),
    value_first=True,
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
    allow_disk_use: bool | None = None
    """None: the server parameter `allowDiskUseByDefault` decides."""

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
            named=_collection_or_one(named),
            pipeline=pipeline,
            batch_size=batch_size,
            explain=explain,
            bypasses_validation=arguments.boolean("bypassDocumentValidation", False),
            hint=hint_argument(arguments),
            collation=arguments.collation(),
            let=arguments.document("let", None),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
            allow_disk_use=arguments.boolean("allowDiskUse", None),
        )
        check_hint(request.hint)
        if not has_cursor and not explain:
            raise CommandError(
                ErrorCode.FailedToParse,
                "The 'cursor' option is required, except for aggregate with the explain argument",
            )
        if arguments.boolean("needsMerge", None) is not None and not arguments.has("fromMongos"):
            raise CommandError(ErrorCode.FailedToParse, "Cannot specify 'needsMerge' without 'fromMongos'")
        return request
