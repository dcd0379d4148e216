"""Seeded random histories of a deployment, in MongoDB's oplog format.

`generate` simulates a deployment operation by operation and returns the oplog together with the documents at
every time. The same seed and options give the same bytes everywhere.

>>> history = generate(7, operations=5)
>>> history.entries == generate(7, operations=5).entries
True
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tests.support.background import BackgroundMaker
from tests.support.bulk import generate_bulk
from tests.support.commands import CommandMaker
from tests.support.deployment import Collection, Deployment, Statement
from tests.support.history import History
from tests.support.statements import StatementMaker
from tests.support.transactions import TransactionMaker

_CONTINUES: Final = 0.35
"""Probability that an open operation continues before the next one begins."""
_RETRYABLE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Features:
    """What a history may contain besides single writes of documents."""

    batches: bool = True
    transactions: bool = True
    commands: bool = True
    """Drops, renames, indexes, views, `collMod`."""
    background: bool = True
    """No-ops, sharding notices, writes to internal namespaces, timeseries."""
    migrations: bool = True
    """Entries with `fromMigrate`, resharding included."""
    sharded_keys: bool = True
    """Document keys with shard-key fields."""
    images: Literal["never", "sometimes", "always"] = "sometimes"
    """Which collections of users record pre-images."""


EVERYTHING: Final = Features()
PLAIN_WRITES: Final = Features(
    batches=False, transactions=False, commands=False, background=False, migrations=False, sharded_keys=False
)


def generate(seed: int, operations: int = 40, features: Features = EVERYTHING) -> History:
    """A history of about that many operations; one operation may log several entries."""
    return _Workload(seed, features).run(operations)


class _Workload:
    def __init__(self, seed: int, features: Features) -> None:
        self._seed = seed
        self._features = features
        self._rng = random.Random(seed)
        self._deployment = Deployment(self._rng)
        self._statements = StatementMaker(self._rng, self._deployment.oplog)
        self._commands = CommandMaker(
            self._deployment, self._statements, sharded_keys=features.sharded_keys, images=features.images
        )
        self._transactions = TransactionMaker(
            self._deployment, self._statements, migrations=features.migrations
        )
        self._background = BackgroundMaker(self._deployment, self._statements, self._commands)
        self._open: list[Iterator[None]] = []
        table = self._table()
        self._actions = [action for _, action in table]
        self._weights = [weight for weight, _ in table]

    def _table(self) -> list[tuple[int, Callable[[], object]]]:
        """The operations with their weights."""
        features, commands, background = self._features, self._commands, self._background
        table: list[tuple[int, Callable[[], object]]] = [
            (24, self._insert), (30, self._update), (6, self._replace), (9, self._delete), (4, self._create),
        ]  # fmt: skip
        if features.batches:
            table += [(4, self._batched_delete), (5, self._vectored_insert)]
        if features.transactions:
            table += [(12, self._transaction)]
        if features.commands:
            table += [
                (2, commands.drop), (3, commands.rename), (1, commands.drop_database), (2, commands.modify),
                (3, self._create_index), (1, commands.drop_index), (3, commands.change_view),
            ]  # fmt: skip
        if features.background:
            table += [
                (3, background.no_op), (1, self._election), (1, background.unmatched_command),
                (3, background.sharding_notice), (3, background.internal_write), (2, background.timeseries),
            ]  # fmt: skip
        if features.migrations:
            table += [(4, background.migrate), (1, background.clone_collection), (1, background.reshard)]
        return table

    def run(self, operations: int) -> History:
        self._background.begin()
        rng = self._rng
        for action in rng.choices(self._actions, self._weights, k=operations):
            if self._open and rng.random() < _CONTINUES:
                self._continue(rng.randrange(len(self._open)))
            action()
        while self._open:
            self._continue(rng.randrange(len(self._open)))
        return self._deployment.history(self._seed)

    # -- documents ----------------------------------------------------------------------------------

    def _insert(self) -> None:
        collection = self._collection()
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            self._log(self._statements.insert(collection))

    def _update(self) -> None:
        found = self._document()
        if found is not None:
            self._log(self._statements.update(*found), may_return_image=True)

    def _replace(self) -> None:
        found = self._document()
        if found is not None:
            self._log(self._statements.replace(*found))

    def _delete(self) -> None:
        found = self._document()
        if found is not None:
            self._log(self._statements.delete(*found), may_return_image=True)

    def _log(self, statement: Statement | None, *, may_return_image: bool = False) -> None:
        """Write a statement, sometimes as a retryable one."""
        if statement is None:
            return
        if not self._features.batches or self._rng.random() > _RETRYABLE:
            self._deployment.write(statement)
            return
        session = self._deployment.take_session()
        if may_return_image and self._rng.random() < 0.4:
            self._deployment.oplog.tick()  # the time that a findAndModify reserves for its image
            statement.operation.needs_retry_image = self._rng.choice(("preImage", "postImage"))
        self._deployment.write(statement, session=session)
        follow_up = self._statements.insert(statement.collection) if self._rng.random() < 0.3 else None
        if follow_up is not None:
            self._deployment.write(follow_up, session=session, statement_id=1)
        self._deployment.give_back(session)

    def _batched_delete(self) -> None:
        self._transactions.batched_delete(self._collection())

    def _vectored_insert(self) -> None:
        self._transactions.vectored_insert(self._collection())

    def _collection(self) -> Collection:
        """A random collection of a user; created if there is none."""
        collections = self._deployment.user_collections()
        if collections:
            return self._rng.choice(collections)
        while True:
            made = self._commands.new_collection()
            if made is not None:
                self._deployment.create(made)
                return made

    def _document(self) -> tuple[Collection, bytes] | None:
        collections = [c for c in self._deployment.user_collections() if c.free_keys()]
        if not collections:
            return None
        collection = self._rng.choice(collections)
        return collection, collection.documents[self._rng.choice(collection.free_keys())]

    # -- operations of more than one entry ------------------------------------------------------------

    def _create(self) -> None:
        self._commands.create()

    def _create_index(self) -> None:
        self._begin(self._commands.create_index())

    def _transaction(self) -> None:
        new = self._commands.new_collection() if self._rng.random() < 0.15 else None
        self._begin(self._transactions.transaction(new))

    def _election(self) -> None:
        if not self._open:  # an open transaction would not survive it
            self._background.election()

    def _begin(self, operation: Iterator[None]) -> None:
        self._open.append(operation)
        self._continue(len(self._open) - 1)
        while self._open and self._open[-1] is operation and self._rng.random() < _CONTINUES:
            self._continue(len(self._open) - 1)

    def _continue(self, position: int) -> None:
        try:
            next(self._open[position])
        except StopIteration:
            del self._open[position]


__all__ = ["EVERYTHING", "PLAIN_WRITES", "Features", "History", "generate", "generate_bulk"]
