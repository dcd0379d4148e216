"""``$meta``: metadata of a search; documents here have none.

Some is required: a query that asks for it and cannot have it is refused. Other metadata is simply missing.
"""

from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.scope import Constant, Expression, ExpressionScope, OperatorParser
from tailrace.query.missing import MISSING

_METADATA: Final = frozenset({
    "textScore", "randVal", "searchScore", "searchHighlights", "geoNearDistance", "geoNearPoint", "recordId",
    "indexKey", "sortKey", "searchScoreDetails", "searchSequenceToken", "vectorSearchScore", "score",
    "scoreDetails",
})  # fmt: skip


_REQUIRED: Final = frozenset({"textScore", "geoNearDistance", "geoNearPoint", "sortKey"})


def no_metadata(argument: Any) -> CommandError:
    """The error for ``{$meta: argument}``."""
    if not is_string(argument):
        return CommandError(17307, "$meta only supports string arguments")
    if argument not in _METADATA:
        return CommandError(17308, f"Unsupported argument to $meta: {argument}")
    return CommandError(40218, f"query requires {argument} metadata, but it is not available")


def _parse_meta(_name: str, spec: Any, _scope: ExpressionScope) -> Expression:
    if is_string(spec) and spec in _METADATA and spec not in _REQUIRED:
        return Constant(MISSING)
    raise no_metadata(spec)


OPERATORS: Final[dict[str, OperatorParser]] = {"$meta": _parse_meta}
