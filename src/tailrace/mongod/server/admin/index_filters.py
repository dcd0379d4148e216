"""Index filters: which indexes a shape of query may use. They are kept and shown; plans do not obey them."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

Document: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]


class QueryShape:
    """What a command says of queries: `query`, `sort`, `projection`, `collation`."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        self._query = _document(command, "query", is_required=True)
        self._sort = _document(command, "sort")
        self._projection = _document(command, "projection")
        collation = _document(command, "collation")
        compile_match(self._query)
        parsed = Collation.parse(collation) if collation else None
        self._collation = None if parsed is None else parsed.to_document()
        self.key: Key = (
            _shape(self._query), tuple(self._sort.items()), _shape(self._projection), _shape(self._collation),
        )  # fmt: skip

    def to_document(self) -> Document:
        shown: Document = {"query": self._query, "sort": self._sort, "projection": self._projection}
        return shown if self._collation is None else {**shown, "collation": self._collation}


def wanted_shape(command: Mapping[str, Any]) -> QueryShape | None:
    """The shape that a command names; None if it names all of the collection's."""
    if "query" in command:
        return QueryShape(command)
    if any(field in command for field in ("sort", "projection", "collation")):
        raise CommandError(ErrorCode.BadValue, "sort, projection, or collation provided without query")
    return None


class IndexFilters:
    """The filters of a member, by the UUID of their collection."""

    def __init__(self) -> None:
        self._filters: dict[bytes, dict[Key, Document]] = {}

    def set(self, uuid: bytes, shape: QueryShape, indexes: list[Any]) -> None:
        filters = self._filters.setdefault(uuid, {})
        filters[shape.key] = {**shape.to_document(), "indexes": indexes}

    def clear(self, uuid: bytes, shape: QueryShape | None) -> None:
        """Remove one filter, or all of a collection's."""
        if shape is None:
            self._filters.pop(uuid, None)
        else:
            self._filters.get(uuid, {}).pop(shape.key, None)

    def of(self, uuid: bytes) -> list[Document]:
        return list(self._filters.get(uuid, {}).values())


def _document(command: Mapping[str, Any], field: str, *, is_required: bool = False) -> Document:
    if not is_required and field not in command:
        return {}
    if field not in command:
        raise CommandError(ErrorCode.BadValue, f"required field {field} missing")
    value = command[field]
    if not isinstance(value, dict):
        kind = "required" if is_required else "optional"
        raise CommandError(ErrorCode.BadValue, f"{kind} field {field} must be an object")
    return value


def _shape(value: Any) -> Any:
    """The fields and operators of a query, without its constants."""
    if isinstance(value, Mapping):
        return tuple((name, _shape(inner)) for name, inner in sorted(value.items()))
    if isinstance(value, list):
        return tuple(_shape(inner) for inner in value if isinstance(inner, Mapping))
    return None
