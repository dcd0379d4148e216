"""The options of `count`, read and checked."""

from dataclasses import dataclass

from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.reads.access.planner import check_hint
from tailrace.mongod.server.reads.requests.find_request import FindRequest


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
        limit = abs(arguments.integer("limit", 0))
        arguments.ignore("count", "fields", "allowDiskUse", "queryMetadata")
        arguments.finish()
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
