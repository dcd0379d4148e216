"""Add the columns that new documents need. No column ever changes its type or goes away.

Delta cannot change the type of a column in place without a table feature that few readers have, so a value
that its field's column cannot hold exactly gets a column beside it. `docs/tables.md` has the rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.errors import UsageError
from tailrace.lake.columns.chunks import HELD_BY
from tailrace.lake.columns.column_types import (
    BINARY,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    JSON,
    LONG,
    OBJECT_ID,
    STRING,
    TIMESTAMP,
    UUID,
    VARIANT,
    Branch,
    ColumnType,
    FieldColumns,
    Layout,
    ListType,
    ScalarType,
    StructType,
)
from tailrace.lake.columns.names import Names
from tailrace.lake.columns.shape import FieldShape, FieldsShape, Mark

CONFLICTS: Final = ("branches", "json", "variant")


@dataclass(frozen=True, slots=True)
class Policy:
    """How columns are chosen."""

    conflicts: str = "branches"
    """What a field of several types gets: a column for each, or one of JSON or VARIANT beside the first"""
    max_fields: int = 500
    """Columns are made for this many fields of a document; further ones share a column of JSON"""
    reserved: tuple[str, ...] = ()
    """Names that the table has for columns of its own"""

    def __post_init__(self) -> None:
        if self.conflicts not in CONFLICTS:
            raise UsageError(
                f"no policy {self.conflicts!r} for fields of several types: use {', '.join(CONFLICTS)}"
            )

    @property
    def anything(self) -> ScalarType:
        """The type of the column for values that no other column holds."""
        return VARIANT if self.conflicts == "variant" else JSON


DEFAULT: Final = Policy()


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One step of the evolution of a table's columns, and the first event that made it necessary."""

    path: str
    """The field, as ``a.b``; the items of an array are ``a[]``"""
    column: str
    """The column that was added, with those around it"""
    what: str
    """`field added`, `type added` or `fields without a column`"""
    old_type: str | None
    """The types of the field before, as Spark writes them"""
    new_type: str
    cluster_time: int
    token: str


def evolve(layout: Layout, shape: FieldsShape, policy: Policy = DEFAULT) -> tuple[Layout, list[SchemaChange]]:
    """The layout with columns for everything that is in a shape, and what was added."""
    changes: list[SchemaChange] = []
    root = _Evolution(policy, changes).struct(layout.root, shape, "", "", policy.reserved)
    return Layout(root), sorted(changes, key=lambda change: (change.cluster_time, change.token, change.path))


class _Evolution:
    def __init__(self, policy: Policy, changes: list[SchemaChange]) -> None:
        self._policy = policy
        self._changes = changes

    def struct(
        self, old: StructType, shape: FieldsShape, path: str, column: str, reserved: Iterable[str] = ()
    ) -> StructType:
        names = Names([*reserved, *[branch.column for branch in old.columns()]])
        by_name = {field.name: field for field in old.fields}
        room = self._policy.max_fields - len(by_name)
        new = [name for name in shape.fields if name not in by_name]
        # In the order of events, so that the tasks of a batch may finish in any order.
        new.sort(key=lambda name: (_first(shape.fields[name]), name))
        for name in [*by_name, *new[: max(room, 0)]]:
            if name in shape.fields:
                before = by_name.get(name, FieldColumns(name, ()))
                inner = f"{path}.{name}" if path else name
                by_name[name] = self._field(before, shape.fields[name], names, inner, column)
        rest = old.rest
        if rest is None and len(new) > max(room, 0):
            rest = names.take("__rest")
            first, _ = min(_first(shape.fields[name]) for name in new[max(room, 0) :])
            self._note("fields without a column", path, _joined(column, rest), None, JSON.ddl, first)
        return StructType(tuple(field for field in by_name.values() if field.branches), rest)

    def _field(
        self, old: FieldColumns, shape: FieldShape, names: Names, path: str, column: str
    ) -> FieldColumns:
        branches = [self._grown(branch, shape, path, column) for branch in old.branches]
        typed = [branch for branch in branches if branch.type not in (JSON, VARIANT)]
        uncovered = {name for name in shape.classes if not _is_held(name, shape, typed)}
        for type_ in self._wanted(shape, uncovered, typed, path, column):
            is_anything = type_ in (JSON, VARIANT)
            if is_anything and len(typed) < len(branches):
                continue
            plain = not is_anything and not typed
            name = names.take(old.name if plain else f"{old.name}__{type_.name}")
            first = min(shape.classes[of].first for of in uncovered if is_anything or _holds(type_, of))
            before = ", ".join(branch.type.ddl for branch in branches) or None
            branches.append(Branch(name, type_))
            if not is_anything:
                typed.append(branches[-1])
            what = "field added" if before is None else "type added"
            self._note(what, path, _joined(column, name), before, type_.ddl, first)
        # A value is in the first column that holds it.
        branches.sort(key=lambda branch: branch.type in (JSON, VARIANT))
        return FieldColumns(old.name, tuple(branches))

    def _grown(self, branch: Branch, shape: FieldShape, path: str, column: str) -> Branch:
        """A column that exists, with columns for what is inside of its new values."""
        return Branch(
            branch.column, self._grown_type(branch.type, shape, path, _joined(column, branch.column))
        )

    def _grown_type(self, type_: ColumnType, shape: FieldShape, path: str, column: str) -> ColumnType:
        if isinstance(type_, StructType) and shape.struct is not None:
            return self.struct(type_, shape.struct, path, column)
        if isinstance(type_, ListType) and shape.items is not None:
            return ListType(self._grown_type(type_.element, shape.items, f"{path}[]", f"{column}.element"))
        return type_

    def _wanted(
        self, shape: FieldShape, uncovered: set[str], typed: list[Branch], path: str, column: str
    ) -> list[ColumnType]:
        """The types of the columns to add, the one that takes the plain name first."""
        many = self._policy.conflicts == "branches"
        if not uncovered:
            return []
        found: list[ColumnType] = []
        if not typed or many:
            has_list = any(isinstance(branch.type, ListType) for branch in typed)
            found += _scalars(uncovered)
            if "struct" in uncovered and shape.struct is not None:
                silent = _Evolution(self._policy, [])
                struct = silent.struct(StructType(()), shape.struct, path, column)
                if struct.fields or struct.rest is not None:
                    found.append(struct)
            if "array" in uncovered and shape.items is not None and not has_list:
                element = self._element(shape.items, path, column)
                if element is not None:
                    found.append(ListType(element))
            found.sort(key=lambda type_: (*_weight(type_, shape), _RANK.index(type_.name)))
            if not many:
                del found[1:]
        branches = [*typed, *[Branch("", type_) for type_ in found]]
        if any(not _is_held(name, shape, branches) for name in uncovered):
            found.append(self._policy.anything)
        return found

    def _element(self, shape: FieldShape, path: str, column: str) -> ColumnType | None:
        """The one type of the items of an array: the one that most of them have."""
        wanted = self._wanted(shape, {*shape.classes}, [], f"{path}[]", column)
        return wanted[0] if wanted and wanted[0] not in (JSON, VARIANT) else None

    def _note(
        self, what: str, path: str, column: str, old: str | None, new: str, first: Mark
    ) -> None:  # fmt: skip
        self._changes.append(SchemaChange(path, column, what, old, new, *first))


def _joined(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _first(shape: FieldShape) -> tuple[Mark, int]:
    return min((seen.first, seen.place) for seen in shape.classes.values())


def _holds(type_: ColumnType, name: str) -> bool:
    return name in HELD_BY[type_.name]


def _is_held(name: str, shape: FieldShape, branches: Iterable[Branch]) -> bool:
    """Whether one of the columns holds all values of a class."""
    return any(_holds_all(branch.type, name, shape) for branch in branches)


def _holds_all(type_: ColumnType, name: str, shape: FieldShape) -> bool:
    if not _holds(type_, name):
        return False
    if not isinstance(type_, ListType) or shape.items is None:
        return True
    items = shape.items
    return all(_holds_all(type_.element, inner, items) for inner in items.classes)


def _weight(type_: ColumnType, shape: FieldShape) -> tuple[int, Mark]:
    """How many values a type holds, most first, and the first event that has one."""
    held = [seen for name, seen in shape.classes.items() if _holds(type_, name)]
    return -sum(seen.count for seen in held), min(seen.first for seen in held)


_SCALARS: Final = (BOOLEAN, STRING, OBJECT_ID, UUID, BINARY, TIMESTAMP)
_RANK: Final = (
    "long", "double", "decimal", "string", "objectid", "uuid", "binary", "boolean", "timestamp", "struct",
    "array",
)  # fmt: skip


def _scalars(classes: set[str]) -> list[ColumnType]:
    """The fewest types that hold some classes; numbers share one where it holds all of them exactly."""
    found: list[ColumnType] = [type_ for type_ in _SCALARS if HELD_BY[type_.name] & classes]
    numbers = classes & {"int", "wide", "whole", "fraction", "decimal"}
    if "decimal" in numbers:
        found.append(DECIMAL)
        if "fraction" in numbers:
            found.append(DOUBLE)
    elif numbers & {"whole", "fraction"}:
        found.append(DOUBLE)
        if "wide" in numbers:
            found.append(LONG)
    elif numbers:
        found.append(LONG)
    return found
