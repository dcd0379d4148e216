"""The columns of a table: which field of a document is in which column, and the type of each.

A `Layout` maps field names to columns and back. A field has one or more columns, its *branches*: a value is
in the first one that holds it exactly. The types are few; `docs/tables.md` lists which BSON type goes where.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

VARIANT_STORAGE: Final = pa.struct([
    pa.field("metadata", pa.binary(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
])  # fmt: skip
"""How Parquet stores a VARIANT"""

DECIMAL_PRECISION: Final = 38
DECIMAL_SCALE: Final = 18


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without columns inside."""

    name: str
    precision: int = 0
    """Of a decimal, as is the scale"""
    scale: int = 0

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale) if self.name == "decimal" else _ARROW[self.name]

    @property
    def ddl(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else _DDL[self.name]


@dataclass(frozen=True, slots=True)
class StructType:
    """A nested document."""

    fields: "tuple[FieldColumns, ...]"
    rest: str | None = None
    """The column with the fields that have none, as JSON; see `Policy.max_fields`"""

    @property
    def name(self) -> str:
        return "struct"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct(_arrow_fields(self))

    @property
    def ddl(self) -> str:
        return f"struct<{', '.join(f'`{branch.column}`: {branch.type.ddl}' for branch in self.columns())}>"

    def columns(self) -> "Iterator[Branch]":
        """All columns, in order."""
        for field in self.fields:
            yield from field.branches
        if self.rest is not None:
            yield Branch(self.rest, JSON)

    def field(self, name: str) -> "FieldColumns | None":
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class ListType:
    """An array whose items have one type."""

    element: "ColumnType"

    @property
    def name(self) -> str:
        return "array"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow))

    @property
    def ddl(self) -> str:
        return f"array<{self.element.ddl}>"


ColumnType: TypeAlias = ScalarType | StructType | ListType


@dataclass(frozen=True, slots=True)
class Branch:
    """One column of a field."""

    column: str
    type: ColumnType
    required: bool = False
    """Whether a given schema says NOT NULL"""


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """A field of documents and its columns."""

    name: str
    """The name in documents; bytes that are no UTF-8 are written as in `decode_name`"""
    branches: tuple[Branch, ...]


BOOLEAN: Final = ScalarType("boolean")
INT: Final = ScalarType("int")
LONG: Final = ScalarType("long")
DOUBLE: Final = ScalarType("double")
DECIMAL: Final = ScalarType("decimal", DECIMAL_PRECISION, DECIMAL_SCALE)
STRING: Final = ScalarType("string")
TEXT: Final = ScalarType("text")
"""The `string` of a given schema: takes ObjectIds and UUIDs, too"""
OBJECT_ID: Final = ScalarType("objectid")
UUID: Final = ScalarType("uuid")
BINARY: Final = ScalarType("binary")
TIMESTAMP: Final = ScalarType("timestamp")
JSON: Final = ScalarType("json")
VARIANT: Final = ScalarType("variant")

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "text": pa.string(),
    "objectid": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "json": pa.string(),
    "variant": VARIANT_STORAGE,
}
_DDL: Final[Mapping[str, str]] = {
    **{name: name for name in ("boolean", "int", "double", "string", "binary", "timestamp", "variant")},
    **dict.fromkeys(("text", "objectid", "uuid", "json"), "string"),
    "long": "bigint",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that a table has for the fields of documents."""

    root: StructType = StructType(())

    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow has them; each names its field and its type in its metadata."""
        return pa.schema(_arrow_fields(self.root))

    def ddl(self) -> str:
        """The columns as Spark has them.

        >>> columns = FieldColumns("n", (Branch("n", LONG),))
        >>> Layout(StructType((columns,))).ddl()
        'struct<`n`: bigint>'
        """
        return self.root.ddl

    def to_json(self) -> str:
        """The layout as text, to be stored with the table; `from_json` reads it."""
        return json.dumps(_plain(self.root), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Layout":
        root = _read(json.loads(text))
        assert isinstance(root, StructType)
        return cls(root)


def decode_name(name: bytes) -> str:
    r"""A field's name as text; what is no UTF-8 is written as ``\xff``."""
    return name.decode(errors="backslashreplace")


def _arrow_fields(struct: StructType) -> list[pa.Field]:
    fields = []
    for field in struct.fields:
        for branch in field.branches:
            metadata = {"tailrace.field": field.name, "tailrace.type": branch.type.name}
            fields.append(
                pa.field(branch.column, branch.type.arrow, nullable=not branch.required, metadata=metadata)
            )
    if struct.rest is not None:
        fields.append(pa.field(struct.rest, pa.string(), metadata={"tailrace.type": "rest"}))
    return fields


def _plain(type_: ColumnType) -> Any:
    if isinstance(type_, ListType):
        return {"element": _plain(type_.element)}
    if isinstance(type_, StructType):
        fields = [
            {
                "name": field.name,
                "columns": [
                    {"column": branch.column, "type": _plain(branch.type)}
                    | ({"required": True} if branch.required else {})
                    for branch in field.branches
                ],
            }
            for field in type_.fields
        ]
        return {"fields": fields} if type_.rest is None else {"fields": fields, "rest": type_.rest}
    if type_.name == "decimal":
        return {"decimal": [type_.precision, type_.scale]}
    return type_.name


def _read(plain: Any) -> ColumnType:
    if isinstance(plain, str):
        return ScalarType(plain)
    if "decimal" in plain:
        return ScalarType("decimal", *plain["decimal"])
    if "element" in plain:
        return ListType(_read(plain["element"]))
    fields = [
        FieldColumns(
            field["name"],
            tuple(
                Branch(column["column"], _read(column["type"]), column.get("required", False))
                for column in field["columns"]
            ),
        )
        for field in plain["fields"]
    ]
    return StructType(tuple(fields), plain.get("rest"))
