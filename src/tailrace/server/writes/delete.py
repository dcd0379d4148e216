"""The execution of deletes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.server.context import Context
from tailrace.server.writes.namespaces import existing_collection
from tailrace.server.writes.targets import Selection
from tailrace.server.writes.unit import WritingUnit


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    """One delete, as delete, findAndModify and bulkWrite all have it."""

    query: Mapping[str, Any]
    multi: bool = False
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None


@dataclass(slots=True)
class DeleteOutcome:
    """What a delete did."""

    number: int = 0
    before: bytes | None = None
    """The last document that was removed"""


def run_delete(
    unit: WritingUnit,
    context: Context,
    database: str,
    name: str,
    spec: DeleteSpec,
    variables: Mapping[str, Any],
    *,
    statement_id: int | None = None,
    retry_image: str | None = None,
) -> DeleteOutcome:
    """Execute one statement on a collection."""
    collection = existing_collection(unit.catalog, database, name)
    selection = Selection.compile(
        spec.query, variables=variables, collation=spec.collation, sort=spec.sort, collection=collection
    )
    outcome = DeleteOutcome()
    if collection is None:
        return outcome
    if spec.multi:
        for target in selection.all(unit, collection, context):
            unit.delete(collection, target.key, target.raw, grouped=True)
            outcome.number += 1
            outcome.before = target.raw
        unit.end_group()
        return outcome
    found = selection.first(unit, collection, context)
    if found is not None:
        unit.delete(collection, found.key, found.raw, stmt_id=statement_id, retry_image=retry_image)
        outcome.number, outcome.before = 1, found.raw
    return outcome
