"""Single updates and deletes as update, delete, findAndModify and bulkWrite all have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """One update."""

    query: Mapping[str, Any]
    update: Any
    multi: bool = False
    upsert: bool = False
    array_filters: Sequence[Any] = ()
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None
    constants: Mapping[str, Any] | None = None
    """`c`: variables for this statement's pipeline alone"""
    supplies_document: bool = False
    """`upsertSupplied`: the document to insert is the constant `new`"""


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    """One delete."""

    query: Mapping[str, Any]
    multi: bool = False
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None
