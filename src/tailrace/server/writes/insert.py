"""The execution of inserts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.server.writes.batch import Batch, run_statements
from tailrace.server.writes.capped import check_fits, trim
from tailrace.server.writes.namespaces import check_collection_uuid, collection_to_insert
from tailrace.server.writes.new_document import storable
from tailrace.server.writes.retries import RetryHistory
from tailrace.server.writes.unit import WritingUnit
from tailrace.server.writes.validation import Validator
from tailrace.server.writes.write_errors import WriteErrors
from tailrace.store.catalog import Collection


class Inserter:
    """Puts documents into one collection, which is made for the first of them if it is not there."""

    def __init__(self, unit: WritingUnit, batch: Batch) -> None:
        self._unit = unit
        self._batch = batch
        self._clock = batch.context.server.store.clock
        self._collection: Collection | None = None
        self._validator: Validator | None = None

    def insert(self, document: bytes, statement_id: int | None) -> None:
        """Store one document as a client sent it."""
        document = storable(document, self._clock)
        collection = self._collection or self._open()
        if self._validator is not None:
            self._validator.check_insert(document)
        if collection.is_capped:
            check_fits(collection, document)
        self._unit.insert(collection, document, stmt_id=statement_id)
        if collection.is_capped:
            trim(self._unit, collection)

    def _open(self) -> Collection:
        batch = self._batch
        collection = collection_to_insert(self._unit, batch.database, batch.name)
        if not batch.bypasses_validation:
            self._validator = Validator.of(collection, batch.context.server.log)
        self._collection = collection
        return collection


@dataclass(slots=True)
class InsertResult:
    """What an insert command did."""

    number: int = 0
    errors: WriteErrors = field(default_factory=WriteErrors)
    retried: list[int] = field(default_factory=list)
    """Statements that had been executed before"""


def insert_batch(unit: WritingUnit, batch: Batch, documents: Sequence[bytes]) -> InsertResult:
    """Run an insert command."""
    result = InsertResult()
    check_collection_uuid(unit.catalog, batch.database, batch.name, batch.collection_uuid)
    history = RetryHistory.open(unit, batch.context) if batch.is_retryable else None
    inserter = Inserter(unit, batch)

    def execute(index: int, document: bytes) -> None:
        statement_id = batch.statement_id(index)
        if history is not None and statement_id is not None and history.find(statement_id) is not None:
            result.retried.append(statement_id)
        else:
            inserter.insert(document, statement_id)
        result.number += 1

    run_statements(batch, documents, execute, result.errors)
    return result
