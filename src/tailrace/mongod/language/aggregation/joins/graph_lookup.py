"""`$graphLookup`: a recursive search in another collection.

The search begins with the values of an expression. It finds the documents with one of them in one field,
continues with the values of another field of those, and so on until it finds no new document. Each document
is found once, at its smallest depth; null does not match a missing field here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bson import Int64, Regex

from tailrace.bson.compare import sort_key
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.joins.foreign import EqualityJoin, ForeignCollection, values_at
from tailrace.mongod.language.aggregation.memory.budget import DEFAULT_LIMIT, ROW_OVERHEAD
from tailrace.mongod.language.aggregation.nested_fields import set_nested
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Pause, Row, Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import checked_collection
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.pacing import tick, ticking
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import is_number, type_name
from tailrace.query.match import Matcher, compile_match
from tailrace.query.missing import MISSING

_REQUIRED: Final = ("from", "as", "startWith", "connectFromField", "connectToField")
_MAX_BYTES: Final = DEFAULT_LIMIT
_OPTIONS: Final = (*_REQUIRED, "maxDepth", "depthField", "restrictSearchWithMatch")


def check_graph_lookup(name: str, spec: Any, _context: PipelineContext) -> None:
    if not isinstance(spec, Mapping) or not is_string(spec.get("from")):
        raise CommandError(ErrorCode.FailedToParse, f"the {name} stage must be an object with a text 'from'")


def compile_graph_lookup(name: str, spec: Any, scope: StageScope) -> Stage:
    _check(name, spec)
    output = split_path(spec["as"])
    start = scope.parse(spec["startWith"])
    search = _Search(name, spec, scope)

    def run(rows: Rows) -> Rows:
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            value = start(scope.environment(row.document))
            values = [] if value is MISSING else value if isinstance(value, list) else [value]
            found: list[Document] = []
            for item in search.from_values(values):
                if item is PAUSE:
                    yield item
                else:
                    found.append(item)
            yield Row(set_nested(row.document, output, found))

    return run


class _Search:
    def __init__(self, name: str, spec: Mapping[str, Any], scope: StageScope) -> None:
        self._connect_from = split_path(spec["connectFromField"])
        split_path(spec["connectToField"])
        self._connect_to = spec["connectToField"]
        self._collation = scope.context.collation
        self._collection = ForeignCollection(scope, spec["from"])
        self._join = EqualityJoin(self._collection, spec["connectToField"], scope, null_is_missing=False)
        self._max_depth = _checked_depth(name, spec["maxDepth"]) if "maxDepth" in spec else None
        self._depth_field = split_path(spec["depthField"]) if "depthField" in spec else None
        self._string_key = scope.string_key
        self._matcher: Matcher | None = None
        if "restrictSearchWithMatch" in spec:
            self._matcher = compile_match(
                spec["restrictSearchWithMatch"],
                variables=scope.variables,
                collation=scope.context.collation,
                dialect=scope.context.dialect,
            )

    def from_values(self, values: list[Any]) -> Iterator[Document | Pause]:
        """All documents that can be reached, by depth; raises 40099 if they take too much memory."""
        size = 0
        asked: set[Any] = set()
        visited: set[Any] = set()
        depth = 0
        frontier = self._new(values, asked)
        while frontier and (self._max_depth is None or depth <= self._max_depth):
            tick()
            reached: list[Any] = []
            for row in self._search(frontier):
                if row is PAUSE:
                    yield row
                    continue
                tick()
                document = row.document
                if self._matcher is not None and not self._matcher(document):
                    continue
                identity = sort_key(document.get("_id"))
                if identity in visited:
                    continue
                visited.add(identity)
                size += len(row.stored) + ROW_OVERHEAD
                if size > _MAX_BYTES:
                    raise CommandError(40099, "$graphLookup reached maximum memory consumption")
                reached += values_at(document, self._connect_from)
                if self._depth_field is not None:
                    document = set_nested(document, self._depth_field, Int64(depth))
                yield document
            frontier = self._new(reached, asked)
            depth += 1

    def _search(self, values: list[Any]) -> Rows:
        """The documents whose field has one of the values, or is matched by one that is a regex."""
        if any(isinstance(value, Regex) for value in values):
            query = {self._connect_to: {"$in": values}}
            matches = compile_match(query, collation=self._collation)
            rows: Rows = self._collection.rows()
            return (row for row in rows if row is PAUSE or matches(row.document))
        return self._join.rows(values)

    def _new(self, values: list[Any], asked: set[Any]) -> list[Any]:
        """The values that have not been searched for yet."""
        new = []
        for value in ticking(values):
            key = sort_key(value, self._string_key)
            if key not in asked:
                asked.add(key)
                new.append(value)
        return new


def _check(name: str, spec: Any) -> None:
    if not isinstance(spec, Mapping):
        raise CommandError(
            ErrorCode.FailedToParse,
            f"the {name} stage specification must be an object, not {type_name(spec)}",
        )
    for option, value in spec.items():
        if option not in _OPTIONS:
            raise CommandError(40104, f"Unknown argument to {name}: {option}")
        if option == "restrictSearchWithMatch":
            if not isinstance(value, Mapping):
                raise CommandError(
                    40185, f"restrictSearchWithMatch of {name} must be an object, found {type_name(value)}"
                )
        elif option not in ("startWith", "maxDepth") and not is_string(value):
            code = ErrorCode.FailedToParse if option == "from" else 40103
            raise CommandError(code, f"expected string as argument for {option}, found: {type_name(value)}")
    if "from" not in spec:
        raise CommandError(ErrorCode.FailedToParse, f"missing 'from' option to {name} stage specification")
    checked_collection("", spec["from"])
    if any(spec.get(option, "") == "" for option in _REQUIRED):
        raise CommandError(40105, f"{name} requires {', '.join(_REQUIRED)} to be specified")


def _checked_depth(name: str, value: Any) -> int:
    if not is_number(value):
        raise CommandError(40100, f"maxDepth of {name} must be numeric, found type: {type_name(value)}")
    depth = integral_value(value)
    if depth is not None and depth < 0:
        raise CommandError(40101, f"maxDepth of {name} requires a nonnegative argument, found: {value}")
    if depth is None or not fits_int64(depth):
        raise CommandError(40102, f"maxDepth of {name} could not be represented as a long long: {value}")
    return depth
