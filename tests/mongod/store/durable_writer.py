"""A process that writes to a store and prints what was acknowledged, until it is killed.

    python -m tests.mongod.store.durable_writer DIRECTORY SEED

Several writers share the store. Each has a plan, computed from the seed, and one statement at a time; when
the store has acknowledged a statement, a line `WRITER NUMBER` is printed.
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.events.update_diff import compute_diff
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

WRITERS = 4
NAMESPACE = "shop.orders"
INDEX = {"v": 2, "key": {"n": 1, "tags": -1}, "name": "n_1_tags_-1"}


class Statement(NamedTuple):
    """The effect of one job: which documents exist after it, and which do not."""

    changes: dict[str, bytes | None]


def plan(seed: int, writer: int) -> Iterator[Statement]:
    """The statements of a writer, without end; each writer changes its own documents."""
    rng = random.Random(f"{seed}/{writer}")
    state: dict[str, bytes] = {}
    number = 0
    while True:
        changes: dict[str, bytes | None] = {}
        for _ in range(rng.choice((1, 1, 1, 3))):
            if len(state) > 5 and rng.random() < 0.5:
                name = rng.choice(sorted(state))
            else:
                name = f"{seed}/{writer}/{number}"
                number += 1
            if name in state and rng.random() < 0.4:
                changes[name] = None
                del state[name]
                continue
            document = {"_id": name, "n": rng.randrange(5), "tags": [rng.randrange(9) for _ in range(3)]}
            document["text"] = "x" * rng.choice((1, 50, 3000))
            changes[name] = state[name] = documents.encode(document)
        yield Statement(changes)


def run_statement(unit: WriteUnit, statement: Statement) -> None:
    """Change the store to the state of the statement."""
    collection = unit.catalog.collection(NAMESPACE)
    assert collection is not None
    for name, after in statement.changes.items():
        found = unit.find_id(collection, id_key_of(documents.encode({"_id": name})) or b"")
        if found is None:
            if after is not None:
                unit.insert(collection, after)
        elif after is None:
            unit.delete(collection, *found, grouped=True)
        else:
            diff = compute_diff(found[1], after)
            delta = None if diff is None else rawbson.document(
                rawbson.body(documents.encode({"$v": 2})), rawbson.element(rawbson.DOCUMENT, b"diff", diff)
            )  # fmt: skip
            unit.update(collection, *found, after, delta or after)


def create(unit: WriteUnit) -> None:
    """Create the collection, with images, and its index, if they do not exist."""
    if unit.catalog.collection(NAMESPACE) is None:
        options = {"changeStreamPreAndPostImages": {"enabled": True}}
        unit.add_index(unit.create_collection("shop", "orders", options), INDEX)


async def write(store: Store, seed: int, writer: int) -> None:
    for number, statement in enumerate(plan(seed, writer)):
        await store.write(partial(run_statement, statement=statement))
        print(writer, number, flush=True)


async def main(path: Path, seed: int) -> None:
    store = Store.open(path, map_size=1 << 30)
    store.attach(asyncio.get_running_loop())
    await store.write(create)
    await asyncio.gather(*(write(store, seed, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
