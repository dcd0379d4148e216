"""A long, plain oplog for benchmarks: mostly inserts, many small updates, some deletes and transactions."""

import random
from collections.abc import Iterator
from typing import Any, Final

import bson
from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp

_NULL_OPTIME: Final = {"ts": Timestamp(0, 0), "t": Int64(-1)}
_UUID: Final = Binary(bytes(range(16)), 4)
_NAMESPACE: Final = "shop.orders"
_START: Final = 1_700_000_000
_PER_SECOND: Final = 1000
_TRANSACTION_SIZE: Final = 4
_KNOWN: Final = 1000


def generate_bulk(seed: int, count: int) -> Iterator[bytes]:
    """``count`` entries: 60 % inserts of about 300 bytes, 30 % diff updates, 10 % deletes.

    Every hundredth entry is a transaction of four inserts. Only the last thousand `_id`s are stored, so
    memory does not grow with ``count``.
    """
    rng = random.Random(seed)
    known: list[ObjectId] = []
    for number in range(count):
        roll = rng.random()
        if number % 100 == 99:
            yield bson.encode(_transaction(rng, number, known))
        elif roll < 0.6 or not known:
            document = _order(rng, number)
            _remember(known, document["_id"], rng)
            yield bson.encode(_entry(number, "i", document, {"_id": document["_id"]}))
        elif roll < 0.9:
            diff: dict[str, Any] = {
                "u": {"status": rng.choice(("paid", "sent", "back")), "total": rng.random() * 100}
            }
            if roll < 0.7:
                diff["scustomer"] = {"u": {"city": "Ulm"}, "i": {f"note{number % 5}": "call first"}}
            key = {"_id": rng.choice(known)}
            yield bson.encode(_entry(number, "u", {"$v": 2, "diff": diff}, key))
        else:
            key = {"_id": known.pop(rng.randrange(len(known)))}
            yield bson.encode(_entry(number, "d", key))


def _order(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": ObjectId(_START.to_bytes(4) + number.to_bytes(8)),
        "status": "new",
        "total": round(rng.random() * 100, 2),
        "customer": {"name": f"Customer {number}", "city": "Bonn", "vip": number % 7 == 0},
        "items": [{"sku": f"sku-{rng.randrange(10_000)}", "qty": rng.randrange(1, 9)} for _ in range(3)],
        "placed": DatetimeMS(_START * 1000 + number),
        "comment": "x" * rng.randrange(20, 60),
    }


def _entry(number: int, op: str, o: dict[str, Any], o2: dict[str, Any] | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"op": op, "ns": _NAMESPACE, "ui": _UUID, "o": o}
    if o2 is not None:
        entry["o2"] = o2
    return entry | _time(number)


def _transaction(rng: random.Random, number: int, known: list[ObjectId]) -> dict[str, Any]:
    operations = []
    for position in range(_TRANSACTION_SIZE):
        document = _order(rng, number * 1000 + position)
        _remember(known, document["_id"], rng)
        key = {"_id": document["_id"]}
        operations.append({"op": "i", "ns": _NAMESPACE, "ui": _UUID, "o": document, "o2": key})
    entry = {
        "lsid": {"id": Binary(bytes(16), 4), "uid": bytes(32)},
        "txnNumber": Int64(number),
        "op": "c",
        "ns": "admin.$cmd",
        "o": {"applyOps": operations},
    }
    return entry | _time(number) | {"prevOpTime": _NULL_OPTIME}


def _time(number: int) -> dict[str, Any]:
    second = _START + number // _PER_SECOND
    return {
        "ts": Timestamp(second, number % _PER_SECOND + 1),
        "t": Int64(1),
        "v": Int64(2),
        "wall": DatetimeMS(second * 1000 + number % _PER_SECOND),
    }


def _remember(known: list[ObjectId], identifier: ObjectId, rng: random.Random) -> None:
    if len(known) < _KNOWN:
        known.append(identifier)
    else:
        known[rng.randrange(_KNOWN)] = identifier
