"""The options of `count`, read and checked."""

import math
from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import NOT_GIVEN, Arguments
from tailrace.mongod.server.dispatch.fields import ENCRYPTION, LATER, command
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    FLAG,
    HINT,
    LONG_MIN,
    OBJECT,
    OLD_COLLECTION_OR_UUID,
    UUID,
    as_number,
    at_least,
)  # fmt: skip
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest

COUNT_FIELDS: Final = command(
    {
        "count": OLD_COLLECTION_OR_UUID, "query": OBJECT, "limit": ANY, "skip": at_least(0), "hint": HINT,
        "collation": OBJECT, "fields": ANY, "encryptionInformation": ENCRYPTION, "collectionUUID": UUID,
        "rawData": FLAG, "allowDiskUse": FLAG, "queryMetadata": OBJECT, "$queryOptions": OBJECT,
    },
    since=dict.fromkeys(("collectionUUID", "rawData", "allowDiskUse", "queryMetadata"), LATER),
    late=True,
    value_first=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CountRequest:
    find: FindRequest
    """Gives the documents to be counted."""
    skip: int
    limit: int
    """0 is no limit."""

    @classmethod
    def parse(cls, arguments: Arguments) -> "CountRequest":
        """Read the fields of a command; a negative limit means the same as a positive one."""
        find = FindRequest.by_query(arguments)
        skip = arguments.integer("skip", 0, minimum=0)
        limit = _limit(arguments)
        check_hint(find.hint)
        return cls(find, skip, limit)

    @property
    def is_fast(self) -> bool:
        """Whether the number of all documents is the answer."""
        return not self.find.query and self.find.hint is None

    @property
    def most(self) -> int | None:
        """How many matching documents have to be found at most; None is all of them."""
        return self.skip + self.limit if self.limit else None

    def window(self, number: int) -> int:
        """The number of documents that skip and limit leave of ``number``."""
        left = max(number - self.skip, 0)
        return min(left, self.limit) if self.limit else left


def _limit(arguments: Arguments) -> int:
    """`limit` is read by hand: only whole numbers, and null is none; the sign has no meaning."""
    value = arguments.given("limit")
    if value is NOT_GIVEN:
        return 0
    number = as_number(value)
    if number is None:
        raise CommandError(ErrorCode.BadValue, "limit value is not a valid number")
    if not math.isfinite(number) or number != int(number) or not -(2**63) <= number < 2**63:
        raise CommandError(ErrorCode.FailedToParse, f"Expected an integer: limit: {value}")
    if number == LONG_MIN:
        raise CommandError(ErrorCode.BadValue, f"Limit value for count cannot be {LONG_MIN}")
    return abs(int(number))
