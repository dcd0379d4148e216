"""A long oplog as applications write it, for benchmarks: mostly retryable writes, and some transactions."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import bson
from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp

_NULL_OPTIME: Final = {"ts": Timestamp(0, 0), "t": Int64(-1)}
_START: Final = 1_700_000_000
_PER_SECOND: Final = 1000
_KNOWN: Final = 1000
_USER: Final = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


@dataclass(frozen=True, slots=True)
class BulkMix:
    """What the entries are; shares are between 0 and 1."""

    inserts: float = 0.6
    updates: float = 0.3
    """the others are deletes"""
    retryable: float = 0.9
    """the others are written as statements that change many documents are"""
    transactions: float = 0.01
    transaction_size: int = 4
    batches: float = 0.005
    """entries that hold the documents of an `insertMany`, as releases from 8.0 on write them"""
    batch_size: int = 10
    sessions: int = 16
    collections: int = 4


REALISTIC: Final = BulkMix()


def generate_bulk(seed: int, count: int, mix: BulkMix = REALISTIC) -> Iterator[bytes]:
    """``count`` entries: inserts of about 300 bytes, diff updates, deletes, transactions and batches.

    Only the last thousand `_id`s are stored, so memory does not grow with ``count``.
    """
    maker = _Maker(random.Random(seed), mix)
    for number in range(count):
        yield bson.encode(maker.entry(number))


class _Maker:
    def __init__(self, rng: random.Random, mix: BulkMix) -> None:
        self._rng = rng
        self._mix = mix
        self._known: list[tuple[int, ObjectId]] = []
        self._numbers = [0] * mix.sessions

    def entry(self, number: int) -> dict[str, Any]:
        rng, mix = self._rng, self._mix
        roll = rng.random()
        if roll < mix.transactions:
            operations = [self._change(number * 1000 + place) for place in range(mix.transaction_size)]
            return self._holder(number, operations) | {"prevOpTime": _NULL_OPTIME}
        if roll < mix.transactions + mix.batches:
            collection = self._collection()
            operations = [
                self._insert(number * 1000 + place, collection) | {"stmtId": place}
                for place in range(mix.batch_size)
            ]
            return self._holder(number, operations) | {"prevOpTime": _NULL_OPTIME, "multiOpType": 1}
        change = self._change(number)
        if rng.random() >= mix.retryable:
            return change | _time(number)
        return self._session() | change | {"stmtId": 0} | _time(number) | {"prevOpTime": _NULL_OPTIME}

    def _holder(self, number: int, operations: list[dict[str, Any]]) -> dict[str, Any]:
        command = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": operations}}
        return self._session() | command | _time(number)

    def _session(self) -> dict[str, Any]:
        session = self._rng.randrange(self._mix.sessions)
        self._numbers[session] += 1
        lsid = {"id": Binary(bytes(15) + bytes([session]), 4), "uid": _USER}
        return {"lsid": lsid, "txnNumber": Int64(self._numbers[session])}

    def _collection(self) -> int:
        """A collection's number; some are written to more often than others."""
        return int(self._rng.random() ** 2 * self._mix.collections)

    def _change(self, number: int) -> dict[str, Any]:
        rng, mix, known = self._rng, self._mix, self._known
        roll = rng.random()
        if roll < mix.inserts or not known:
            return self._insert(number, self._collection())
        if roll < mix.inserts + mix.updates:
            diff: dict[str, Any] = {
                "u": {"status": rng.choice(("paid", "sent", "back")), "total": rng.random() * 100}
            }
            if rng.random() < 0.3:
                diff["scustomer"] = {"u": {"city": "Ulm"}, "i": {f"note{number % 5}": "call first"}}
            collection, identifier = rng.choice(known)
            return _operation("u", collection, {"$v": 2, "diff": diff}) | {"o2": {"_id": identifier}}
        collection, identifier = known.pop(rng.randrange(len(known))) if mix.inserts else rng.choice(known)
        return _operation("d", collection, {"_id": identifier})

    def _insert(self, number: int, collection: int) -> dict[str, Any]:
        document = _order(self._rng, number)
        new = (collection, document["_id"])
        if len(self._known) < _KNOWN:
            self._known.append(new)
        else:
            self._known[self._rng.randrange(_KNOWN)] = new
        return _operation("i", collection, document) | {"o2": {"_id": document["_id"]}}


def _operation(op: str, collection: int, o: dict[str, Any]) -> dict[str, Any]:
    uuid = Binary(collection.to_bytes(8) + bytes(range(8)), 4)
    return {"op": op, "ns": _namespace(collection), "ui": uuid, "o": o}


def _namespace(collection: int) -> str:
    return f"shop.orders{collection or ''}"


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


def _time(number: int) -> dict[str, Any]:
    second = _START + number // _PER_SECOND
    return {
        "ts": Timestamp(second, number % _PER_SECOND + 1),
        "t": Int64(1),
        "v": Int64(2),
        "wall": DatetimeMS(second * 1000 + number % _PER_SECOND),
    }
