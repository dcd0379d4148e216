"""A small history for people to read: a shop takes orders, ships them and closes the year.

Its oplog is `examples/shop_oplog.jsonl`, which the tour replays and the documentation quotes.
"""

import random
from typing import Any, Final

from bson import DatetimeMS, Decimal128

from tailrace.bson import documents as bsondocs
from tailrace.events.entry_bytes import apply_ops, command
from tests.support.background import BackgroundMaker
from tests.support.commands import CommandMaker
from tests.support.deployment import Collection, Deployment, Statement
from tests.support.history import History, identity
from tests.support.statements import StatementMaker

_SEED: Final = 2023
_DAY: Final = DatetimeMS(1_700_000_000_000)


def shop_story() -> History:
    """The same bytes at every call."""
    return _Story().history()


class _Story:
    def __init__(self) -> None:
        self._deployment = Deployment(random.Random(_SEED))
        self._statements = StatementMaker(self._deployment.rng, self._deployment.oplog)
        commands = CommandMaker(self._deployment, self._statements, sharded_keys=False, images="never")
        self._background = BackgroundMaker(self._deployment, self._statements, commands)

    def history(self) -> History:
        self._background.begin()
        orders, stock = self._create("orders"), self._create("stock")
        for sku, quantity in (("teapot", 12), ("kettle", 3)):
            self._insert(stock, {"_id": sku, "qty": quantity})
        self._insert(orders, _order(1, "Ada", [{"sku": "teapot", "qty": 1}], "19.90"))
        self._insert(orders, _order(2, "Grace", [{"sku": "kettle", "qty": 2}], "59.80"))
        self._update(orders, 1, {"$set": {"status": "paid", "address.city": "Bath"}})
        self._update(orders, 1, {"$push": {"items": {"sku": "cup", "qty": 4}}, "$unset": {"note": ""}})
        self._buy(orders, stock)
        self._delete(orders, 2)
        self._rename(orders, "orders2023")
        self._drop(stock)
        return self._deployment.history(_SEED)

    def _create(self, name: str) -> Collection:
        collection = Collection("shop", name, self._deployment.oplog.new_uuid(), records_images=True)
        collection.options["changeStreamPreAndPostImages"] = {"enabled": True}
        self._deployment.create(collection)
        return collection

    def _insert(self, collection: Collection, document: dict[str, Any]) -> None:
        self._deployment.write(self._statements.inserted(collection, bsondocs.encode(document)))

    def _update(self, collection: Collection, identifier: Any, update: dict[str, Any]) -> None:
        self._deployment.write(self._updated(collection, identifier, update))

    def _updated(self, collection: Collection, identifier: Any, update: dict[str, Any]) -> Statement:
        made = self._statements.modified(collection, _find(collection, identifier), update)
        assert made is not None, "every update of the story changes something"
        return made

    def _buy(self, orders: Collection, stock: Collection) -> None:
        """A transaction: an order, and the goods that it takes from the stock."""
        order = bsondocs.encode(_order(3, "Alan", [{"sku": "teapot", "qty": 2}], "39.80"))
        writes = [
            self._statements.inserted(orders, order),
            self._updated(stock, "teapot", {"$inc": {"qty": -2}}),
        ]
        session = self._deployment.take_session()
        entry = apply_ops([write.operation for write in writes])
        timestamp = self._deployment.oplog.write(entry, session=session, previous=session.last)
        for index, write in enumerate(writes):
            self._deployment.record_image(write, timestamp, index)
            self._deployment.apply(write, timestamp, index)

    def _delete(self, collection: Collection, identifier: Any) -> None:
        self._deployment.write(self._statements.delete(collection, _find(collection, identifier)))

    def _rename(self, collection: Collection, name: str) -> None:
        o = {"renameCollection": collection.namespace, "to": f"shop.{name}", "stayTemp": False}
        timestamp = self._deployment.oplog.write(command("shop", o, uuid=collection.uuid))
        self._deployment.move(collection, name, timestamp)

    def _drop(self, collection: Collection) -> None:
        operation = command("shop", {"drop": collection.name}, uuid=collection.uuid)
        self._deployment.remove(collection, self._deployment.oplog.write(operation))


def _find(collection: Collection, identifier: Any) -> bytes:
    return collection.documents[identity(bsondocs.encode({"_id": identifier}))]


def _order(number: int, customer: str, items: list[dict[str, Any]], total: str) -> dict[str, Any]:
    return {
        "_id": number,
        "customer": customer,
        "items": items,
        "total": Decimal128(total),
        "placed": _DAY,
        "note": "leave at the door",
    }
