"""Execute deletes."""

from dataclasses import dataclass, replace

from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.targets import PieceEnds, Selection, Unfinished, Visit
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.unit_of_work import UnitOfWork


@dataclass(slots=True)
class DeleteOutcome:
    removed: int = 0
    before: bytes | None = None
    """The last document that was removed."""


@dataclass(frozen=True, slots=True)
class DeleteScope:
    unit: UnitOfWork
    context: Context
    collection: Collection
    statement_id: int | None = None
    retry_image: str | None = None


def run_delete(
    selection: Selection, scope: DeleteScope, *, multi: bool, before: Unfinished | None = None
) -> DeleteOutcome:
    """Delete what matches; raises `PieceEnds` if it has to go on in another job, from there."""
    unit, collection = scope.unit, scope.collection
    outcome = DeleteOutcome()
    if not multi:
        found = selection.first(unit, collection, scope.context)
        if found is not None:
            unit.delete(
                collection,
                found.key,
                found.raw,
                stmt_id=scope.statement_id,
                retry_image=scope.retry_image,
            )
            outcome.removed, outcome.before = 1, found.raw
        return outcome
    visit = Visit()
    if before is not None:
        outcome, visit = replace(before.outcome), before.visit.copy()
    for target in selection.all(unit, collection, scope.context, visit):
        unit.delete(collection, target.key, target.raw, grouped=True)
        outcome.removed += 1
        outcome.before = target.raw
        if unit.is_due():
            raise PieceEnds(Unfinished(selection, collection, visit, selection, outcome))
    unit.end_group()
    return outcome
