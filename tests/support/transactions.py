"""Log operations as `applyOps`: transactions of all kinds, batched deletes, vectored inserts.

A transaction is a generator: it yields where other operations may be logged between its entries, and becomes
visible as a whole when it commits. Until then its documents are locked and its collections pinned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import NULL_OPTIME, Operation, apply_ops, command
from tests.support.deployment import Collection, Deployment, Statement, create_operation
from tests.support.oplog_writer import Session
from tests.support.statements import StatementMaker, keeps_shard_key

Part = Sequence["Statement | Operation"]
"""The content of one entry: document writes and commands."""


@dataclass(slots=True)
class Draft:
    """A transaction before it is logged: its operations, and its own view of the documents."""

    deployment: Deployment
    operations: list[Statement | Operation] = field(default_factory=list)
    view: dict[tuple[Collection, bytes], bytes | None] = field(default_factory=dict)
    created: list[Collection] = field(default_factory=list)
    pinned: list[Collection] = field(default_factory=list)

    def add(self, statement: Statement) -> None:
        """Add a write: lock its document, pin its collection, make its result visible to the transaction."""
        collection = statement.collection
        if collection not in self.pinned:
            self.pinned.append(collection)
            collection.pins += 1
        collection.locked.add(statement.key)
        self.view[collection, statement.key] = statement.after
        self.operations.append(statement)

    def create(self, collection: Collection) -> None:
        """Create a collection inside the transaction."""
        self.created.append(collection)
        self.deployment.reserved.add(collection.namespace)
        self.operations.append(create_operation(collection))

    @property
    def is_migration(self) -> bool:
        """Whether every operation moves documents between shards: only then entries have `fromMigrate`."""
        return bool(self.operations) and all(
            isinstance(operation, Statement) and operation.migrated for operation in self.operations
        )

    def release(self) -> None:
        """Release locks, pins and reserved names."""
        for collection in self.created:
            self.deployment.reserved.discard(collection.namespace)
        for collection in self.pinned:
            collection.pins -= 1
        for collection, key in self.view:
            collection.locked.discard(key)


class TransactionMaker:
    def __init__(self, deployment: Deployment, statements: StatementMaker, *, migrations: bool) -> None:
        self._deployment = deployment
        self._statements = statements
        self._migrations = migrations
        self._rng = deployment.rng

    # -- transactions -------------------------------------------------------------------------------

    def transaction(self, new_collection: Collection | None = None) -> Iterator[None]:
        """One entry, a chain, or a prepared transaction that commits or aborts."""
        rng, deployment = self._rng, self._deployment
        draft = self._draft(new_collection)
        prepared = rng.random() < 0.35
        aborted = prepared and rng.random() < 0.35
        session = deployment.take_session()
        logged: list[tuple[int, Part]] = []
        parts = self._cut(draft.operations)
        for number, part in enumerate(parts):
            flags: dict[str, bool | int] = {}
            if number < len(parts) - 1:
                flags["partialTxn"] = True
            else:
                if prepared:
                    flags["prepare"] = True
                if len(parts) > 1:
                    flags["count"] = len(draft.operations)
            entry = apply_ops(_operations(part), from_migrate=draft.is_migration or None, **flags)
            timestamp = deployment.oplog.write(entry, session=session, previous=session.last)
            logged.append((timestamp, part))
            if not aborted:
                self._record_images(timestamp, part)
            if number < len(parts) - 1 or prepared:
                yield
        if prepared:
            self._decide(session, aborted=aborted)
        draft.release()
        deployment.give_back(session)
        if not aborted:
            for collection in draft.created:
                deployment.collections[collection.namespace] = collection
            self._apply(logged, deployment.oplog.now)

    def _decide(self, session: Session, *, aborted: bool) -> None:
        oplog = self._deployment.oplog
        if aborted:
            end = command("admin", {"abortTransaction": 1})
        else:
            time = self._rng.choice((session.last.ts, oplog.now))
            end = command("admin", {"commitTransaction": 1, "commitTimestamp": to_timestamp(time)})
        oplog.write(end, session=session, previous=session.last)

    def _draft(self, new_collection: Collection | None) -> Draft:
        rng = self._rng
        draft = Draft(self._deployment)
        if new_collection is not None:
            draft.create(new_collection)
            if rng.random() < 0.5:
                index = {"v": 2, "key": {"a": 1}, "name": "a_1"}
                o = {"createIndexes": new_collection.name, **index}
                draft.operations.append(command(new_collection.database, o, uuid=new_collection.uuid))
                new_collection.indexes["a_1"] = index
        for _ in range(rng.choice((0, 1, 1, 2, 3, 4, 6, 8))):
            self._add_write(draft)
        return draft

    def _add_write(self, draft: Draft) -> None:
        rng, statements = self._rng, self._statements
        collections = [
            *draft.created,
            *(c for c in self._deployment.collections.values() if c.name != "system.views"),
        ]
        if not collections:
            return
        collection = rng.choice(collections)
        roll = rng.random()
        migrated = self._migrations and roll < 0.05
        existing = self._visible(draft, collection)
        if migrated or roll < 0.4 or not existing:
            inserted = statements.insert(collection, migrated=migrated)
            if inserted is not None:
                draft.add(inserted)
            return
        raw = rng.choice(existing)
        if roll < 0.7:
            updated = statements.update(collection, raw)
        elif roll < 0.8:
            updated = statements.replace(collection, raw)
        else:
            draft.add(statements.delete(collection, raw))
            if roll > 0.9:  # a changed shard key: the document is deleted and inserted with the same `_id`
                again = statements.documents.changed(bsondocs.decode(raw))
                if keeps_shard_key(collection, again):
                    draft.add(statements.inserted(collection, bsondocs.encode(again)))
            return
        if updated is not None:
            draft.add(updated)

    def _visible(self, draft: Draft, collection: Collection) -> list[bytes]:
        """The documents that the transaction may write: free ones and its own."""
        own = {key: raw for (owner, key), raw in draft.view.items() if owner is collection}
        found = [collection.documents[key] for key in collection.free_keys()]
        migrated = {s.key for s in draft.operations if isinstance(s, Statement) and s.migrated}
        return found + [raw for key, raw in own.items() if raw is not None and key not in migrated]

    def _cut(self, operations: list[Statement | Operation]) -> list[Part]:
        """Distribute operations over entries; some entries may be empty."""
        rng = self._rng
        pieces = rng.choice((1, 1, 1, 2, 2, 3, 4))
        cuts = sorted(rng.randrange(len(operations) + 1) for _ in range(pieces - 1))
        bounds = [0, *cuts, len(operations)]
        return [operations[start:end] for start, end in pairwise(bounds)]

    # -- batches ------------------------------------------------------------------------------------

    def batched_delete(self, collection: Collection) -> bool:
        """Delete several documents in one entry, or in a chain without a session; False if too few."""
        rng, deployment = self._rng, self._deployment
        keys = collection.free_keys()
        if len(keys) < 2:
            return False
        chosen = rng.sample(keys, rng.randrange(2, min(6, len(keys)) + 1))
        operations: list[Statement | Operation] = [
            self._statements.delete(collection, collection.documents[key]) for key in chosen
        ]
        logged: list[tuple[int, Part]] = []
        if len(operations) > 2 and rng.random() < 0.4:
            first, last = operations[:2], operations[2:]
            entry = apply_ops(_operations(first), partialTxn=True)
            logged.append((deployment.oplog.write(entry, previous=NULL_OPTIME), first))
            self._record_images(*logged[-1])
            previous = deployment.oplog.optime
            entry = apply_ops(_operations(last), count=len(operations))
            logged.append((deployment.oplog.write(entry, previous=previous), last))
        else:
            logged.append((deployment.oplog.write(apply_ops(_operations(operations))), operations))
        self._record_images(*logged[-1])
        self._apply(logged, logged[-1][0])
        return True

    def vectored_insert(self, collection: Collection) -> bool:
        """Insert several documents with one entry: plain, or as retryable statements of a session."""
        rng, deployment = self._rng, self._deployment
        rounds = 1
        session, multi_op_type = None, None
        if rng.random() < 0.6:
            session = deployment.take_session()
            multi_op_type = rng.choice((1, 1, 2))
            # In a second round prevOpTime refers to another batch, not to the chain of a transaction.
            rounds = rng.choice((1, 2)) if multi_op_type == 1 else 1
        statement_id = 0
        for _ in range(rounds):
            batch = self._inserts(collection, rng.randrange(2, 5))
            if len(batch) < 2:
                break
            previous = None
            if session is not None:
                previous = session.last
                for statement in batch:
                    statement.operation.statement_ids = (statement_id,)
                    statement_id += 1
            entry = apply_ops([statement.operation for statement in batch])
            timestamp = deployment.oplog.write(
                entry, session=session, previous=previous, multi_op_type=multi_op_type
            )
            self._apply([(timestamp, batch)], timestamp)
        if session is not None:
            deployment.give_back(session)
        return True

    def _inserts(self, collection: Collection, count: int) -> list[Statement]:
        batch: dict[bytes, Statement] = {}
        for _ in range(count):
            made = self._statements.insert(collection)
            if made is not None:
                batch.setdefault(made.key, made)
        return list(batch.values())

    # -- shared -------------------------------------------------------------------------------------

    def _record_images(self, timestamp: int, part: Part) -> None:
        for index, item in enumerate(part):
            if isinstance(item, Statement):
                self._deployment.record_image(item, timestamp, index)

    def _apply(self, logged: Sequence[tuple[int, Part]], visible_at: int) -> None:
        index = 0
        for _, part in logged:
            for item in part:
                if isinstance(item, Statement):
                    self._deployment.apply(item, visible_at, index)
                index += 1


def _operations(part: Part) -> list[Operation]:
    return [item.operation if isinstance(item, Statement) else item for item in part]
