"""The options of `count`, read and checked."""

from dataclasses import dataclass
from typing import Any

from tailrace.mongod.server.catalog_changes import collection_uuid
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest


@dataclass(frozen=True, slots=True)
class CountRequest:
    """What a client asks for."""

    query: dict[str, Any]
    skip: int
    limit: int
    """0 is no limit."""
    hint: str | dict[str, Any] | None
    collation: dict[str, Any] | None
    collection_uuid: bytes | None
    raw_data: bool

    @classmethod
    def parse(cls, arguments: Arguments) -> "CountRequest":
        """Read the fields of a command; a negative limit means the same as a positive one."""
        request = cls(
            query=arguments.document("query", {}),
            skip=arguments.integer("skip", 0, minimum=0),
            limit=abs(arguments.integer("limit", 0)),
            hint=arguments.value("hint", None) or None,
            collation=arguments.document("collation", None),
            collection_uuid=collection_uuid(arguments),
            raw_data=arguments.boolean("rawData", False),
        )
        arguments.ignore("count", "fields", "allowDiskUse", "queryMetadata")
        arguments.finish()
        check_hint(request.hint)
        return request

    @property
    def is_fast(self) -> bool:
        """Whether the number of all documents answers it."""
        return not self.query and self.hint is None

    @property
    def most(self) -> int | None:
        """How many matching documents make a difference; None if all of them do."""
        return self.skip + self.limit if self.limit else None

    def window(self, number: int) -> int:
        """How many of that many documents are inside of skip and limit."""
        left = max(number - self.skip, 0)
        return min(left, self.limit) if self.limit else left

    def as_find(self) -> FindRequest:
        """The find that gives the documents to be counted."""
        return FindRequest(
            query=self.query,
            hint=self.hint,
            collation=self.collation,
            collection_uuid=self.collection_uuid,
            raw_data=self.raw_data,
        )
