"""Small oplogs for the tests of archives."""

from collections.abc import Mapping, Sequence
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


_ENDS = b"\xff\xff\xff\xff"


def dump_archive(collections: Mapping[str, Sequence[bytes]], *, segment: int = 7) -> bytes:
    """Return what `mongodump --archive` writes: segments of the collections take turns.

    The oplog of a dump with ``--oplog`` is the collection ``.oplog``.
    """
    parts = [bytes.fromhex("6de29981"), bson.encode({"version": "0.1"})]
    for ns in collections:
        database, _, collection = ns.partition(".")
        parts.append(bson.encode({"db": database, "collection": collection, "metadata": "{}", "size": 0}))
    parts.append(_ENDS)
    rounds = max((len(documents) for documents in collections.values()), default=0)
    for first in range(0, max(rounds, 1), segment):
        for ns, found in collections.items():
            parts += [_header(ns, is_end=False, checksum=0), *found[first : first + segment], _ENDS]
    for ns, found in collections.items():
        parts += [_header(ns, is_end=True, checksum=_crc64(b"".join(found))), _ENDS]
    return b"".join(parts)


def _header(ns: str, *, is_end: bool, checksum: int) -> bytes:
    database, _, collection = ns.partition(".")
    signed = checksum - (1 << 64) if checksum >> 63 else checksum
    return bson.encode({"db": database, "collection": collection, "EOF": is_end, "CRC": Int64(signed)})


def _crc64(content: bytes) -> int:
    """CRC-64 with ECMA's polynomial, bit by bit."""
    rest = (1 << 64) - 1
    for byte in content:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0xC96C5795D7870F42 if rest & 1 else 0)
    return rest ^ (1 << 64) - 1
