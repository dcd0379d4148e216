"""Helpers for tests of updates: apply an update, and check its diff."""

from typing import Any

import pytest
from bson import DatetimeMS, Timestamp

from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.events.update_diff import apply_diff
from tailrace.mongod.language.update import UpdateResult, compile_update

NOW = DatetimeMS(1_700_000_000_000)
CLUSTER_TIME = Timestamp(1_700_000_000, 7)
NO_CHANGE = "no change"


def update(
    document: dict[str, Any],
    spec: Any,
    *,
    array_filters: Any = (),
    collation: Any = None,
    array_position: int | None = None,
    is_upsert_insert: bool = False,
) -> UpdateResult:
    """Apply an update, and check that the given document was not changed."""
    before = encode(document)
    compiled = compile_update(spec, array_filters=array_filters, collation=collation)
    result = compiled.apply(
        document,
        array_position=array_position,
        is_upsert_insert=is_upsert_insert,
        now=NOW,
        cluster_time=CLUSTER_TIME,
    )
    assert encode(document) == before
    return result


def check_modifiers(before: dict[str, Any], spec: Any, after: Any, diff: Any, **options: Any) -> None:
    """Check the document and the diff of an update, and that the diff has the same effect."""
    result = update(before, spec, **options)
    if after is NO_CHANGE:
        assert (result.modified, result.diff) == (False, None)
        assert encode(result.document) == encode(before)
        return
    assert encode(result.document) == encode(after), result.document
    assert result.diff is not None
    assert encode(result.diff) == encode(diff), result.diff
    assert result.modified
    assert not result.is_replacement
    assert apply_diff(encode(before), encode(result.diff)) == encode(after)


def check_error(code: int, document: dict[str, Any], spec: Any, **options: Any) -> None:
    """Check that the update fails with a code."""
    with pytest.raises(CommandError) as caught:
        update(document, spec, **options)
    assert caught.value.code == code, str(caught.value)
