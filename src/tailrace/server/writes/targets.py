"""Finding the documents that an update or a delete is about."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from tailrace.bsonio.documents import decode, encode_value
from tailrace.query.collation import Collation
from tailrace.query.match import Matcher, compile_match
from tailrace.query.match.scope import is_operator_document
from tailrace.query.sorting import Ordering, TopSelector, compile_sort
from tailrace.server.context import Context
from tailrace.server.writes.validation import collation_of
from tailrace.store.catalog import Collection
from tailrace.store.reader import Reader, id_key

_READ_AT_ONCE: Final = 256
"""Records read ahead of the changes: a scan must not meet its own changes half-way"""


class Target(NamedTuple):
    """A document that matched."""

    key: bytes
    raw: bytes
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """A statement's filter with everything that says what it means."""

    query: Mapping[str, Any]
    matcher: Matcher
    collation: Collation | None
    ordering: Ordering | None = None

    @classmethod
    def compile(
        cls,
        query: Mapping[str, Any],
        *,
        variables: Mapping[str, Any],
        collation: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        collection: Collection | None = None,
    ) -> "Selection":
        """Compile a filter; without a collation of its own it has the collection's."""
        if collation is not None:
            chosen = Collation.parse(collation)
        else:
            chosen = None if collection is None else collation_of(collection)
        matcher = compile_match(query, variables=variables, collation=chosen)
        ordering = compile_sort(sort, chosen) if sort else None
        return cls(query, matcher, chosen, ordering)

    def first(self, reader: Reader, collection: Collection, context: Context) -> Target | None:
        """The first document, in the order asked for."""
        found = self._matching(reader, collection, context)
        if self.ordering is None:
            return next(found, None)
        selector: TopSelector[Target] = TopSelector(self.ordering, 1)
        for target in found:
            selector.add(target.document, target)
        return next(selector.items(), None)

    def all(self, reader: Reader, collection: Collection, context: Context) -> Iterator[Target]:
        """Every document, each once, whatever is done to those that have come already."""
        return self._matching(reader, collection, context)

    def _matching(self, reader: Reader, collection: Collection, context: Context) -> Iterator[Target]:
        matches = self.matcher
        for key, raw in self._candidates(reader, collection, context):
            document = decode(raw)
            if matches(document):
                yield Target(key, raw, document)

    def _candidates(
        self, reader: Reader, collection: Collection, context: Context
    ) -> Iterator[tuple[bytes, bytes]]:
        by_id = self._exact_id()
        if by_id is not None:
            found = reader.find_id(collection, by_id)
            if found is not None:
                yield found
            return
        last: bytes | None = None
        while True:
            context.check_deadline()
            ahead = list(islice(reader.records(collection, last), _READ_AT_ONCE))
            yield from ahead
            if len(ahead) < _READ_AT_ONCE:
                return
            last = ahead[-1][0]

    def _exact_id(self) -> bytes | None:
        """The key of the one `_id` that can match."""
        if "_id" not in self.query or self.collation is not None:
            return None
        value = self.query["_id"]
        if is_operator_document(value):
            if list(value) != ["$eq"]:
                return None
            value = value["$eq"]
        kind, encoded = encode_value(value)
        return id_key(kind, encoded)
