"""Single updates and deletes, which update, delete, findAndModify and bulkWrite share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.mongod.server.dispatch.arguments import Arguments


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    query: Mapping[str, Any]
    update: Any
    multi: bool = False
    upsert: bool = False
    array_filters: Sequence[Any] = ()
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None
    constants: Mapping[str, Any] | None = None
    """`c`: variables for this statement's pipeline."""
    supplies_document: bool = False
    """`upsertSupplied`: the document to insert is the constant `new`."""


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    query: Mapping[str, Any]
    multi: bool = False
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None


def read_update(arguments: Arguments, *, query: str, update: str, constants: str) -> UpdateSpec:
    """Read an update statement; the parameters are names of fields, which differ between commands."""
    arguments.ignore("sampleId", "allowShardKeyUpdatesWithoutFullShardKeyInQuery")
    return UpdateSpec(
        query=arguments.document(query),
        update=arguments.value(update),
        multi=arguments.boolean("multi", False),
        upsert=arguments.boolean("upsert", False),
        array_filters=arguments.array("arrayFilters", ()),
        collation=arguments.document("collation", None),
        hint=arguments.value("hint", None),
        sort=arguments.document("sort", None),
        constants=arguments.document(constants, None),
        supplies_document=arguments.boolean("upsertSupplied", False),
    )
