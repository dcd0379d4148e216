"""Small oplogs for the tests of archives."""

from collections.abc import Sequence
from typing import Any

import bson
from bson import DatetimeMS, Int64, Timestamp

from tailrace.bson import documents

UUID = bson.Binary(bytes(range(16)), 4)


def entry(number: int, *, second: int = 100, **fields: Any) -> bytes:
    """Return an insert of ``{_id: number}`` at (second, number); ``fields`` replace or add fields."""
    envelope: dict[str, Any] = {
        "op": "i",
        "ns": "shop.orders",
        "ui": UUID,
        "o": {"_id": number, "text": "x" * (number % 50)},
        "o2": {"_id": number},
        "ts": Timestamp(second, number),
        "t": Int64(1),
        "v": Int64(2),
        "wall": DatetimeMS(1000 + number),
    }
    return documents.encode(envelope | fields)


def entries(count: int, *, first: int = 1, second: int = 100) -> list[bytes]:
    return [entry(number, second=second) for number in range(first, first + count)]


def times(raw_entries: Sequence[bytes]) -> list[int]:
    return [documents.decode(raw)["ts"].inc for raw in raw_entries]
