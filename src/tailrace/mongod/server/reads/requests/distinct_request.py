"""The options of `distinct`, read and checked."""

from dataclasses import dataclass

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest


@dataclass(frozen=True, slots=True)
class DistinctRequest:
    key: str
    find: FindRequest
    """Gives the documents whose values are wanted."""

    @classmethod
    def parse(cls, arguments: Arguments) -> "DistinctRequest":
        """Read the fields of a command."""
        key = arguments.text("key")
        find = FindRequest.by_query(arguments)
        arguments.ignore("distinct", "queryMetadata")
        arguments.finish()
        check_hint(find.hint)
        if "\0" in key:
            raise CommandError(31032, "Key field cannot contain an embedded null byte")
        if not key:
            raise CommandError(ErrorCode.BadValue, "the key of distinct cannot be empty")
        return cls(key, find)
