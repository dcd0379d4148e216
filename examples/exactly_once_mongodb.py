"""Keep a total for each customer, exactly once for every order, in a MongoDB database.

    python examples/exactly_once_mongodb.py DEPLOYMENT GROUP NAMESPACE TARGET [POSITIONS]

TARGET is the connection string of a replica set, with a database: mongodb://HOST/reports?replicaSet=rs0. The
position of a slot is stored in the transaction that stores the effect.
"""

import signal
import sys
from contextlib import suppress
from typing import Any

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from tailrace import Delivery, consume


def add_order(reports: "Database[dict[str, Any]]", group: str, delivery: Delivery) -> None:
    """Store effect and position together."""
    slot = {"group": group, "slot": delivery.slot}

    def transaction(session: ClientSession) -> None:
        # If the stored position is not before this one, nothing matches, and the insertion is a duplicate.
        reports.positions.update_one(
            {"_id": slot, "position": {"$lt": delivery.position}},
            {"$set": {"position": delivery.position}},
            upsert=True,
            session=session,
        )
        order = delivery.event.get("fullDocument")
        if order is not None:
            reports.totals.update_one(
                {"_id": order["customer"]}, {"$inc": {"total": order["amount"]}}, upsert=True, session=session
            )

    # A duplicate was handled before a crash.
    with reports.client.start_session() as session, suppress(DuplicateKeyError):
        session.with_transaction(transaction)


def main() -> None:
    deployment, group, namespace, target, *positions = sys.argv[1:]
    where = positions[0] if positions else None
    with (
        MongoClient[dict[str, Any]](target) as client,
        consume(deployment, group, ns=namespace, positions=where) as consumer,
    ):
        reports = client.get_default_database()
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        print("ready", flush=True)
        consumer.run(lambda delivery: add_order(reports, group, delivery))


if __name__ == "__main__":
    main()
