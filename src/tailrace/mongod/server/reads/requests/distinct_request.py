"""The options of `distinct`, read and checked."""

from dataclasses import dataclass
from typing import Final

from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.fields import LATER, command
from tailrace.mongod.server.dispatch.kinds import FLAG, HINT, OBJECT, OLD_COLLECTION_OR_UUID, TEXT, UUID
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest

DISTINCT_FIELDS: Final = command(
    {
        "distinct": OLD_COLLECTION_OR_UUID, "key": TEXT, "query": OBJECT, "collation": OBJECT, "hint": HINT,
        "collectionUUID": UUID, "rawData": FLAG, "queryMetadata": OBJECT, "$queryOptions": OBJECT,
    },
    required=("key",),
    since=dict.fromkeys(("hint", "collectionUUID", "rawData", "queryMetadata"), LATER),
    late=True,
    value_first=True,
)  # fmt: skip


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
        check_hint(find.hint)
        if "\0" in key:
            raise CommandError(31032, "Key field cannot contain an embedded null byte")
        return cls(key, find)
