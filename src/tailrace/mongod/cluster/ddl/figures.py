"""Figures of shards added up."""

from collections.abc import Iterable, Mapping
from typing import Any

from bson import Int64


def added(replies: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """The sums of some fields, as whole numbers where all parts are.

    >>> added([{"count": 1, "size": 2.5}, {"count": 2}], ["count", "size"])
    {'count': 3, 'size': 2.5}
    """
    rows = list(replies)
    return {name: _sum(row.get(name, 0) for row in rows) for name in names}


def added_by_name(replies: Iterable[Mapping[str, Any]], field: str) -> dict[str, Any]:
    """The sums of the figures in an embedded document, by their names."""
    documents = [row.get(field, {}) for row in replies]
    names = dict.fromkeys(name for document in documents for name in document)
    return added(documents, names)


def _sum(values: Iterable[Any]) -> Any:
    total = sum(values)
    return total if isinstance(total, float) else Int64(total)
