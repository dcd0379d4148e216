"""Refuse operators in queries that are parts of an update."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_IN_UPDATES: Final = {
    "$expr": ErrorCode.QueryFeatureNotAllowed,
    "$jsonSchema": ErrorCode.QueryFeatureNotAllowed,
    "$text": ErrorCode.BadValue,
    "$where": ErrorCode.BadValue,
}
_IN_UPSERTS: Final = {"$expr": ErrorCode.QueryFeatureNotAllowed}
"""No document can be built from it"""


def check_features(query: Mapping[str, Any]) -> None:
    """Refuse what an array filter and a condition of `$pull` may not have."""
    _check(query, _IN_UPDATES, "in this context")


def check_upsert_query(query: Mapping[str, Any]) -> None:
    """Refuse what the query of an upsert may not have."""
    _check(query, _IN_UPSERTS, "in the query predicate for an upsert")


def _check(query: Mapping[str, Any], refused: Mapping[str, ErrorCode], where: str) -> None:
    for name, value in query.items():
        code = refused.get(name)
        if code is not None:
            raise CommandError(code, f"{name} is not allowed {where}")
        if name in _LOGICAL and isinstance(value, list):
            for clause in value:
                if isinstance(clause, Mapping):
                    _check(clause, refused, where)
