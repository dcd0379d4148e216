"""The examples that store effect and position together: every order counts exactly once."""

import importlib.util
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tailrace import Delivery, consume
from tailrace.testing.replica_set import ReplicaSet
from tests.client.groups.crew import Crew, crew, wait_until_done
from tests.client.groups.postgresql import missing_postgresql, postgresql

EXAMPLES = Path(__file__).parents[3] / "examples"
CUSTOMERS = ("ada", "bob", "cyd")
Totals = dict[str, int]
STORES = ("sqlite", "mongodb", pytest.param("postgresql", marks=pytest.mark.slow))


class Target:
    """A store of totals: how an example opens it, and what it contains."""

    def __init__(
        self,
        argument: str,
        opened: Callable[[], AbstractContextManager[Any]],
        read: Callable[[], Totals],
    ) -> None:
        self.argument = argument
        self.opened = opened
        self.read = read


@contextmanager
def target(store: str, server: ReplicaSet, folder: Path) -> Iterator[tuple[Any, Target]]:
    """The module of an example, and its store."""
    example = _example(store)
    if store == "sqlite":
        path = str(folder / "totals")

        def read_file() -> Totals:
            with closing(sqlite3.connect(path)) as connection:
                return dict(connection.execute("SELECT * FROM totals"))

        yield example, Target(path, lambda: closing(example.open_totals(path)), read_file)
    elif store == "mongodb":
        reports = server.client().reports
        address = server.uri.replace("/?", "/reports?")
        yield (
            example,
            Target(
                address,
                lambda: nullcontext(reports),
                lambda: {document["_id"]: document["total"] for document in reports.totals.find()},
            ),
        )
    else:
        with postgresql() as place, closing(example.open_totals(place)) as reading:
            yield (
                example,
                Target(
                    place,
                    lambda: closing(example.open_totals(place)),
                    lambda: dict(reading.execute("SELECT * FROM totals").fetchall()),
                ),
            )


def _example(store: str) -> Any:
    if store == "postgresql" and (reason := missing_postgresql()) is not None:
        pytest.skip(reason)
    spec = importlib.util.spec_from_file_location(store, EXAMPLES / f"exactly_once_{store}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Shop:
    """Takes orders, and knows the totals."""

    def __init__(self, server: ReplicaSet, rng: random.Random) -> None:
        self._orders = server.client().shop.orders
        self._rng = rng
        self.totals: Totals = {}

    def order(self, count: int) -> None:
        for _ in range(count):
            customer, amount = self._rng.choice(CUSTOMERS), self._rng.randint(1, 9)
            self._orders.insert_one({"customer": customer, "amount": amount})
            self.totals[customer] = self.totals.get(customer, 0) + amount


@pytest.mark.parametrize("store", STORES)
def test_an_event_that_is_delivered_again_changes_nothing(store: str, tmp_path: Path) -> None:
    with ReplicaSet() as server, target(store, server, tmp_path) as (example, totals):
        shop = Shop(server, random.Random(1))
        with consume(server.uri, "totals", ns="shop.orders", max_await_time_ms=20) as consumer:
            shop.order(20)
            deliveries: list[Delivery] = []
            consumer.run(deliveries.append, max_events=20)
        with totals.opened() as connection:
            for start in (0, 0, 7, 0):  # a worker that begins again somewhere, and goes on to the end
                for delivery in deliveries[start:]:
                    example.add_order(connection, "totals", delivery)
        assert totals.read() == shop.totals


def kill_examples(store: str, folder: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    with ReplicaSet() as server, target(store, server, folder) as (_, totals):
        consume(server.uri, "totals", ns="shop.orders").close()  # the group begins here
        # The transaction of a killed worker keeps its documents until the server ends it.
        server.client().admin.command("setParameter", 1, transactionLifetimeLimitSeconds=5)
        script = str(EXAMPLES / f"exactly_once_{store}.py")
        with crew(script, server.uri, "totals", "shop.orders", totals.argument) as workers:
            workers.start()
            workers.start()
            shop = Shop(server, rng)
            for _ in range(kills):
                shop.order(rng.randint(10, 60))
                _kill_one_at_work(workers, rng)
                workers.start()
            shop.order(20)
            wait_until_done(server.uri, "totals")
            assert totals.read() == shop.totals, f"seed {seed}"
            assert set(workers.finish()) == {0}
        assert totals.read() == shop.totals, f"seed {seed}"


def _kill_one_at_work(workers: Crew, rng: random.Random) -> None:
    time.sleep(rng.uniform(0, 1.5))  # the moment of the kill, not a wait for anything
    workers.kill(rng.choice(workers.processes))


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "mongodb", "postgresql"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_workers_count_every_order_once(store: str, tmp_path: Path, seed: int) -> None:
    kill_examples(store, tmp_path, seed=seed, kills=3)
