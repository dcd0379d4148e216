"""The schemas that a user gives for the tables of a mirror, by collection."""

import json
from collections.abc import Mapping
from typing import Any

from tailrace.errors import UsageError
from tailrace.lake.columns.column_types import Branch, ColumnType, Layout, ListType, StructType
from tailrace.lake.columns.given import parse_schema
from tailrace.lake.columns.kinds import TableKind, reserved_names
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.mirror.scope import is_mirrored


def schemas_in(text: str) -> dict[str, Any]:
    """The schemas of a file: a JSON object with a schema for each collection; `UsageError` for other text."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the file of schemas is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError('the file of schemas has to be an object such as {"shop.orders": "_id string"}')
    return found


def given_schemas(schemas: Mapping[str, Any], chosen: NamespaceChoice, kind: TableKind) -> dict[str, Layout]:
    """The columns of each collection, from a schema as DDL or as the JSON of Spark.

    >>> from tailrace.pipeline.mirror.scope import mirrored_namespaces
    >>> orders = {"shop.orders": "_id string, total double"}
    >>> given_schemas(orders, mirrored_namespaces(), TableKind.CURRENT)["shop.orders"].ddl()
    'struct<`_id`: string, `total`: double>'
    """
    found = {}
    for namespace, schema in schemas.items():
        if not is_mirrored(chosen, namespace):
            raise UsageError(f"a schema is given for {namespace}, which is not mirrored")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            layout = parse_schema(text, reserved_names(kind))
            _check(layout, kind)
        except UsageError as error:
            raise UsageError(f"{namespace}: {error}") from None
        found[namespace] = layout
    return found


def _check(layout: Layout, kind: TableKind) -> None:
    branches = [branch for field in layout.root.fields for branch in field.branches]
    if any(_has_variant(branch.type) for branch in branches):
        raise UsageError("VARIANT is a feature that few readers of Delta have, so tables have none: use json")
    if kind is TableKind.CHANGES and any(branch.required for branch in branches):
        raise UsageError(
            "the row of a deletion has only the key of its document: leave out NOT NULL in tables of changes"
        )


def _has_variant(type_: ColumnType) -> bool:
    if isinstance(type_, ListType):
        return _has_variant(type_.element)
    if isinstance(type_, StructType):
        inner: list[Branch] = [branch for field in type_.fields for branch in field.branches]
        return any(_has_variant(branch.type) for branch in inner)
    return type_.name == "variant"
