"""Keep a total for each customer, exactly once for every order, in PostgreSQL.

    python examples/exactly_once_postgresql.py DEPLOYMENT GROUP NAMESPACE CONNECTION [POSITIONS]

CONNECTION is what `psql` takes, such as "host=db dbname=shop". The position of a slot is stored in the
transaction that stores the effect; the lock on its row keeps out a worker that has lost the slot and does not
know it yet. It needs `psycopg`.
"""

import signal
import sys
from typing import Any

import psycopg

from tailrace import Delivery, consume

TABLES = """
CREATE TABLE IF NOT EXISTS totals (customer text PRIMARY KEY, total bigint NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    consumer_group text, slot integer, position text COLLATE "C" NOT NULL, PRIMARY KEY (consumer_group, slot)
);
"""
MOVE = """
INSERT INTO positions VALUES (%s, %s, %s) ON CONFLICT (consumer_group, slot)
DO UPDATE SET position = excluded.position WHERE excluded.position > positions.position
"""
ADD = """
INSERT INTO totals VALUES (%s, %s) ON CONFLICT (customer) DO UPDATE SET total = totals.total + excluded.total
"""
_CREATION = 17
"""The number of a lock: two workers that start together must not both create the tables."""


def open_totals(place: str) -> "psycopg.Connection[Any]":
    connection = psycopg.connect(place, autocommit=True)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION,))
        connection.execute(TABLES)
    return connection


def add_order(connection: "psycopg.Connection[Any]", group: str, delivery: Delivery) -> None:
    """Store effect and position together."""
    with connection.transaction():
        moved = connection.execute(MOVE, (group, delivery.slot, delivery.position)).rowcount
        order = delivery.event.get("fullDocument")
        if moved and order is not None:
            connection.execute(ADD, (order["customer"], order["amount"]))


def main() -> None:
    deployment, group, namespace, place, *positions = sys.argv[1:]
    where = positions[0] if positions else None
    with open_totals(place) as totals, consume(deployment, group, ns=namespace, positions=where) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        print("ready", flush=True)
        consumer.run(lambda delivery: add_order(totals, group, delivery))


if __name__ == "__main__":
    main()
