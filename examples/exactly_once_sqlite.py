"""Keep a total for each customer, exactly once for every order, in a SQLite file.

    python examples/exactly_once_sqlite.py DEPLOYMENT GROUP NAMESPACE FILE [POSITIONS]

The position of a slot is stored in the transaction that stores the effect. After a crash the group repeats
some events; their positions are not after the stored one, so they change nothing. Run it as often as you
like at the same time: the workers share the orders.
"""

import signal
import sqlite3
import sys

from tailrace import Delivery, consume

TABLES = """
CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    consumer_group TEXT, slot INTEGER, position TEXT NOT NULL, PRIMARY KEY (consumer_group, slot)
);
"""
MOVE = """
INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT (consumer_group, slot)
DO UPDATE SET position = excluded.position WHERE excluded.position > positions.position
"""
ADD = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (customer) DO UPDATE SET total = total + excluded.total"


def open_totals(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.executescript(TABLES)
    return connection


def add_order(connection: sqlite3.Connection, group: str, delivery: Delivery) -> None:
    """Store effect and position together."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        moved = connection.execute(MOVE, (group, delivery.slot, delivery.position)).rowcount
        order = delivery.event.get("fullDocument")
        if moved and order is not None:
            connection.execute(ADD, (order["customer"], order["amount"]))


def main() -> None:
    deployment, group, namespace, path, *positions = sys.argv[1:]
    totals = open_totals(path)
    place = positions[0] if positions else None
    with consume(deployment, group, ns=namespace, positions=place) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        print("ready", flush=True)
        consumer.run(lambda delivery: add_order(totals, group, delivery))


if __name__ == "__main__":
    main()
