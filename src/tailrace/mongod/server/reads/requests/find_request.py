"""The options of `find`, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.fields import BATCH_SIZE, CONSTANTS, LATER, command
from tailrace.mongod.server.dispatch.kinds import (
    COLLECTION_OR_UUID,
    FLAG,
    GIVEN_FLAG,
    GIVEN_OBJECT,
    HINT,
    NUMBER,
    OBJECT,
    UUID,
    at_least,
)  # fmt: skip
from tailrace.mongod.server.reads.access.planner import NATURAL, check_hint
from tailrace.query.expressions.operands import is_number

FIND_FIELDS: Final = command(
    {
        "find": COLLECTION_OR_UUID, "filter": GIVEN_OBJECT, "sort": GIVEN_OBJECT, "projection": GIVEN_OBJECT,
        "hint": HINT, "skip": at_least(0), "limit": at_least(0), "batchSize": BATCH_SIZE,
        "ntoreturn": at_least(0), "singleBatch": GIVEN_FLAG, "max": GIVEN_OBJECT, "min": GIVEN_OBJECT,
        "returnKey": GIVEN_FLAG, "showRecordId": GIVEN_FLAG, "tailable": GIVEN_FLAG,
        "oplogReplay": GIVEN_FLAG,
        "noCursorTimeout": GIVEN_FLAG, "awaitData": GIVEN_FLAG, "allowPartialResults": GIVEN_FLAG,
        "collation": GIVEN_OBJECT, "allowDiskUse": GIVEN_FLAG, "let": OBJECT, "readOnce": GIVEN_FLAG,
        "options": OBJECT, "term": NUMBER, "allowSpeculativeMajorityRead": GIVEN_FLAG,
        "runtimeConstants": CONSTANTS, "legacyRuntimeConstants": CONSTANTS, "collectionUUID": UUID,
        "rawData": FLAG, "querySettings": OBJECT, "includeQueryStatsMetrics": FLAG,
        "isClusterQueryWithoutShardKeyCmd": FLAG, "$queryOptions": GIVEN_OBJECT,
    },
    since=dict.fromkeys(
        (
            "legacyRuntimeConstants", "rawData", "querySettings",
            "includeQueryStatsMetrics", "isClusterQueryWithoutShardKeyCmd",
        ),
        LATER,
    ),
    late=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FindRequest:
    query: dict[str, Any] = field(default_factory=dict)
    sort: dict[str, Any] = field(default_factory=dict)
    projection: dict[str, Any] = field(default_factory=dict)
    hint: str | dict[str, Any] | None = None
    skip: int = 0
    limit: int = 0
    """0 is no limit."""
    batch_size: int | None = None
    single_batch: bool = False
    min_key: dict[str, Any] | None = None
    max_key: dict[str, Any] | None = None
    return_key: bool = False
    show_record_id: bool = False
    tailable: bool = False
    await_data: bool = False
    no_cursor_timeout: bool = False
    collation: dict[str, Any] | None = None
    let: dict[str, Any] | None = None
    collection_uuid: bytes | None = None
    raw_data: bool = False
    allow_disk_use: bool | None = None
    """None: the server parameter `allowDiskUseByDefault` decides."""

    @classmethod
    def parse(cls, arguments: Arguments) -> "FindRequest":
        """Read the fields of a command, except the collection's name."""
        request = cls(
            query=arguments.document("filter", {}),
            sort=arguments.document("sort", {}),
            projection=arguments.document("projection", {}),
            hint=hint_argument(arguments),
            skip=arguments.integer("skip", 0, minimum=0),
            limit=arguments.integer("limit", 0, minimum=0),
            batch_size=arguments.integer("batchSize", None, minimum=0),
            single_batch=arguments.boolean("singleBatch", False),
            min_key=arguments.document("min", None),
            max_key=arguments.document("max", None),
            return_key=arguments.boolean("returnKey", False),
            show_record_id=arguments.boolean("showRecordId", False),
            tailable=arguments.boolean("tailable", False),
            await_data=arguments.boolean("awaitData", False),
            no_cursor_timeout=arguments.boolean("noCursorTimeout", False),
            collation=arguments.collation(),
            let=arguments.document("let", None),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
            allow_disk_use=arguments.boolean("allowDiskUse", None),
        )
        if arguments.has("ntoreturn"):
            reason = "the ntoreturn find command parameter is not supported when FCV >= 5.1"
            raise CommandError(5746102, reason)
        request._check()
        return request

    @classmethod
    def by_query(cls, arguments: Arguments) -> "FindRequest":
        """The find for the documents of a `count` or `distinct`."""
        return cls(
            query=arguments.document("query", {}),
            hint=hint_argument(arguments),
            collation=arguments.collation(),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
        )

    def _check(self) -> None:
        if self.min_key and self.max_key and list(self.min_key) != list(self.max_key):
            raise CommandError(51176, "min and max must have the same field names")
        check_hint(self.hint)
        check_natural_sort(self.sort)
        if self.await_data and not self.tailable:
            raise CommandError(
                ErrorCode.FailedToParse, "Cannot set 'awaitData' without also setting 'tailable'"
            )
        if self.tailable:
            if self.sort and not (NATURAL in self.sort and self.sort[NATURAL] > 0):
                raise _bad("cannot use tailable option with a sort other than {$natural: 1}")
            if self.single_batch:
                raise _bad("cannot use tailable option with the 'singleBatch' option")


def hint_argument(arguments: Arguments) -> Any:
    """A hint; an empty document is none."""
    hint = arguments.value("hint", None)
    return None if hint == {} else hint


def check_natural_sort(sort: Mapping[str, Any]) -> None:
    """Refuse `$natural` together with other fields, or with a value that is no number."""
    if NATURAL in sort and (len(sort) > 1 or not is_number(sort[NATURAL])):
        raise _bad("$natural sort must be a number, and cannot be combined with other fields")


def _bad(reason: str) -> CommandError:
    return CommandError(ErrorCode.BadValue, reason)
