"""The schema that a user gives for a collection: Spark's DDL, or the JSON that Spark writes for a schema."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.lake.columns import column_types as types
from tailrace.lake.columns.column_types import (
    DECIMAL_PRECISION,
    Branch,
    ColumnType,
    FieldColumns,
    Layout,
    ListType,
    ScalarType,
    StructType,
)
from tailrace.lake.columns.names import Names

_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([^\s`'<>(),:]+)|([<>(),:]))")
_SCALARS: Final = {
    "boolean": types.BOOLEAN,
    "int": types.INT,
    "integer": types.INT,
    "bigint": types.LONG,
    "long": types.LONG,
    "double": types.DOUBLE,
    "string": types.TEXT,
    "binary": types.BINARY,
    "timestamp": types.TIMESTAMP,
    "variant": types.VARIANT,
    "json": types.JSON,
}
_KNOWN: Final = ", ".join([*dict.fromkeys(_SCALARS), "decimal(p,s)", "array<...>", "struct<...>"])


def parse_schema(text: str, reserved: tuple[str, ...] = ()) -> Layout:
    """The layout of a given schema; names are those of the fields of documents.

    ``string`` takes text, ObjectIds and UUIDs, ``json`` and ``variant`` anything. Raises `UsageError`.

    >>> parse_schema("_id string not null, price decimal(10,2), tags array<string>").ddl()
    'struct<`_id`: string, `price`: decimal(10,2), `tags`: array<string>>'
    """
    if text.lstrip().startswith("{"):
        try:
            found = _of_spark(json.loads(text), reserved)
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                "the schema is not the JSON of a Spark schema: write it as DDL, or copy df.schema.json()"
            ) from None
    else:
        found = _Parser(text).schema(reserved)
    if not isinstance(found, StructType) or not found.fields:
        raise UsageError("the schema has no fields: write it as in `_id string, price double`")
    return Layout(found)


def _struct(fields: list[tuple[str, ColumnType, bool]], reserved: tuple[str, ...] = ()) -> StructType:
    twice = {name for name, _, _ in fields if sum(other == name for other, _, _ in fields) > 1}
    if twice:
        raise UsageError(f"the schema names the field {min(twice)!r} twice")
    names = Names(reserved)
    return StructType(tuple(
        FieldColumns(name, (Branch(names.take(name), type_, required),)) for name, type_, required in fields
    ))  # fmt: skip


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text)]
        self._at = 0

    def schema(self, reserved: tuple[str, ...]) -> ColumnType:
        if [token.lower() for token, _ in self._tokens[:2]] == ["struct", "<"]:
            found = self._type(reserved)
        else:
            found = _struct(self._fields(""), reserved)
        if self._peek():
            raise UsageError(f"the schema does not end before {self._peek()!r}")
        return found

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, bool]:
        if self._at == len(self._tokens):
            raise UsageError("the schema ends too early: a type or a bracket is missing")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, wanted: str) -> None:
        found, _ = self._next()
        if found != wanted:
            raise UsageError(f"the schema has {found!r} where {wanted!r} is expected")

    def _fields(self, end: str) -> list[tuple[str, ColumnType, bool]]:
        fields = []
        while self._peek() != end:
            name, _ = self._next()
            if self._peek() == ":":
                self._next()
            type_ = self._type()
            required = False
            if self._peek().lower() == "not":
                self._next()
                self._expect_word("null")
                required = True
            if self._peek().lower() == "comment":
                self._at += 2
            fields.append((name, type_, required))
            if self._peek() == ",":
                self._next()
            elif self._peek() != end:
                raise UsageError(f"the schema has {self._peek()!r} after the field {name!r}, not a comma")
        return fields

    def _expect_word(self, wanted: str) -> None:
        if self._next()[0].lower() != wanted:
            raise UsageError(f"the schema has a NOT without {wanted.upper()}")

    def _type(self, reserved: tuple[str, ...] = ()) -> ColumnType:
        name = self._next()[0].lower()
        if name == "struct":
            self._expect("<")
            fields = self._fields(">")
            self._expect(">")
            return _struct(fields, reserved)
        if name == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return ListType(element)
        if name in ("decimal", "numeric") and self._peek() == "(":
            self._next()
            precision = self._next()[0]
            scale = "0"
            if self._peek() == ",":
                self._next()
                scale = self._next()[0]
            self._expect(")")
            return _decimal(precision, scale)
        return _scalar(name)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    place = 0
    text = text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise UsageError(f"the schema cannot be read from {text[place : place + 20]!r} on")
        place = found.end()
        if found[1] is not None:
            yield found[1].replace("``", "`"), True
        else:
            yield found[2] or found[3] or found[4] or "", False


def _scalar(name: str) -> ScalarType:
    found = _SCALARS.get(name)
    if found is None:
        raise UsageError(
            f"the schema has the type {name!r}, which columns of documents do not have: use {_KNOWN}"
        )
    return found


def _decimal(precision: str, scale: str) -> ScalarType:
    if precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= DECIMAL_PRECISION:
        return ScalarType("decimal", int(precision), int(scale))
    raise UsageError(f"decimal({precision},{scale}) is no type: use decimal(38,18), with at most 38 digits")


def _of_spark(plain: Any, reserved: tuple[str, ...] = ()) -> ColumnType:
    """A type of Spark's JSON."""
    if isinstance(plain, str):
        name, _, digits = plain.rstrip(")").partition("(")
        return _decimal(*digits.split(",")) if digits else _scalar(_SPARK.get(name, name))
    if plain["type"] == "array":
        return ListType(_of_spark(plain["elementType"]))
    if plain["type"] != "struct":
        return _scalar(plain["type"])
    fields = [(field["name"], _of_spark(field["type"]), not field["nullable"]) for field in plain["fields"]]
    return _struct(fields, reserved)


_SPARK: Final = {"integer": "int"}
