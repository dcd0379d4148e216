"""``$meta``: metadata of a search; documents here have none."""

from typing import Any, Final, NoReturn

from tailrace.errors import CommandError
from tailrace.query.expressions.operands import is_string
from tailrace.query.expressions.scope import ExpressionScope, OperatorParser

_METADATA: Final = frozenset({
    "textScore", "randVal", "searchScore", "searchHighlights", "geoNearDistance", "geoNearPoint", "recordId",
    "indexKey", "sortKey", "searchScoreDetails", "searchSequenceToken", "vectorSearchScore", "score",
    "scoreDetails",
})  # fmt: skip


def no_metadata(argument: Any) -> CommandError:
    """The error for ``{$meta: argument}``."""
    if not is_string(argument):
        return CommandError(17307, "$meta only supports string arguments")
    if argument not in _METADATA:
        return CommandError(17308, f"Unsupported argument to $meta: {argument}")
    return CommandError(40218, f"query requires {argument} metadata, but it is not available")


def _refuse_meta(_name: str, spec: Any, _scope: ExpressionScope) -> NoReturn:
    raise no_metadata(spec)


OPERATORS: Final[dict[str, OperatorParser]] = {"$meta": _refuse_meta}
