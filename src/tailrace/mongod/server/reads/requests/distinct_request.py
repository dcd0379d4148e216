"""The options of `distinct`, read and checked."""

from dataclasses import dataclass
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.catalog_changes import collection_uuid
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest


@dataclass(frozen=True, slots=True)
class DistinctRequest:
    """What a client asks for."""

    key: str
    query: dict[str, Any]
    hint: str | dict[str, Any] | None
    collation: dict[str, Any] | None
    collection_uuid: bytes | None
    raw_data: bool

    @classmethod
    def parse(cls, arguments: Arguments) -> "DistinctRequest":
        """Read the fields of a command."""
        request = cls(
            key=arguments.text("key"),
            query=arguments.document("query", {}),
            hint=arguments.value("hint", None) or None,
            collation=arguments.document("collation", None),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
        )
        arguments.ignore("distinct", "queryMetadata")
        arguments.finish()
        check_hint(request.hint)
        if "\0" in request.key:
            raise CommandError(31032, "Key field cannot contain an embedded null byte")
        if not request.key:
            raise CommandError(ErrorCode.BadValue, "the key of distinct cannot be empty")
        return request

    def as_find(self) -> FindRequest:
        """The find that gives the documents whose values are wanted."""
        return FindRequest(
            query=self.query,
            hint=self.hint,
            collation=self.collation,
            collection_uuid=self.collection_uuid,
            raw_data=self.raw_data,
        )
