"""Updates that replace the whole document, except for its ``_id``."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Timestamp

from tailrace.bson.documents import encode
from tailrace.mongod.language.update.document_checks import (
    check_depth,
    check_dollar_names,
    check_id,
    check_new_id,
    check_no_array_id,
    with_id_first,
)
from tailrace.mongod.language.update.operator import UpdateContext, UpdateResult

_EMPTY_TIMESTAMP: Final = Timestamp(0, 0)


class ReplacementUpdate:
    """A compiled replacement."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._document = dict(spec)
        check_depth(self._document, 0)

    def apply(self, context: UpdateContext) -> UpdateResult:
        """The new document; its ``_id`` is the old one, and empty top-level timestamps are filled in."""
        document = {
            name: context.cluster_time if name != "_id" and _is_empty_timestamp(value) else value
            for name, value in self._document.items()
        }
        # One that changes nothing is not checked.
        if not context.is_upsert_insert and encode(context.original) != encode(document):
            check_dollar_names(document, document)
            if "_id" in document:
                check_new_id(document["_id"])
        return whole_document_result(context, document, is_replacement=True)


def _is_empty_timestamp(value: Any) -> bool:
    return isinstance(value, Timestamp) and value == _EMPTY_TIMESTAMP


def whole_document_result(
    context: UpdateContext, after: dict[str, Any], *, is_replacement: bool
) -> UpdateResult:
    """The result of an update that built a new document.

    Without ``_id`` it keeps the old one, and counts as modified even if nothing else differs.
    """
    before, built = context.original, after
    modified = encode(before) != encode(after)
    if "_id" in before and "_id" not in after:
        after = {"_id": before["_id"], **after}
    if context.is_upsert_insert:
        check_no_array_id(after)
    check_id(before, after)
    document = with_id_first(after)
    as_built = None if document is built else built
    return UpdateResult(document, None, is_replacement, modified, as_built)
