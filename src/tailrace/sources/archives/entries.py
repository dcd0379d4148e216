"""Check that documents are oplog entries, without interpreting them.

An entry has a Timestamp `ts`, strings `op` and `ns`, and a document `o`, which only a no-op may lack. The
pipeline judges everything else. Nearly all entries of an oplog begin with `op`, `ns`, `ui` and `o`, after the
session of a retryable write, and have `ts` right after `o`, `o2` or `stmtId`. For those, one match and a few
comparisons suffice; the others are walked.
"""

import re
import struct
from collections.abc import Sequence
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.events.cluster_time import in_words
from tailrace.events.layout.entry import NS_LEAD, O2_LEAD, O_LEAD, TAIL_LEADS, UI_LEAD

_read_int32 = rawbson.INT32_LE.unpack_from
_read_uint64 = rawbson.UINT64_LE.unpack_from

_NEEDED: Final = {
    b"ts": (rawbson.TIMESTAMP, "Timestamp"),
    b"op": (rawbson.STRING, "string"),
    b"ns": (rawbson.STRING, "string"),
    b"o": (rawbson.DOCUMENT, "document"),
}
_PLAIN_BEGINNING: Final = re.compile(
    rb"\x02op\0....[^\0]*\0%b....[^\0]*\0(?:%b.{16})?%b"
    % (re.escape(NS_LEAD), re.escape(UI_LEAD), re.escape(O_LEAD)),
    re.DOTALL,
)
_LSID_LEAD: Final = b"\x03lsid\0"
_NUMBER_LEAD: Final = b"\x12txnNumber\0"
_STATEMENT_LEAD: Final = b"\x10stmtId\0"
_NO_OP: Final = b"\x02\0\0\0n\0"
# Numbers of the envelope that are 64 bits wide, by path.
_WIDE: Final = frozenset({b"t", b"v", b"txnNumber", b"prevOpTime.t", b"lsid.txnNumber"})


class EntryOrder:
    """Checks that documents are entries of one oplog, each later than the one before."""

    def __init__(self) -> None:
        self.last_time = -1
        """`ts` of the last good entry."""

    def leading(self, documents: Sequence[bytes]) -> tuple[int, str | None]:
        """Return how many of the next documents are good, and what is wrong with the one after them."""
        last = self.last_time
        count = 0
        reason = None
        try:
            for raw in documents:
                time = entry_time(raw)
                if time <= last:
                    reason = (
                        f"the entry's {in_words(time)} does not come after the {in_words(last)} of the one "
                        "before it; the entries of several shards make several oplogs"
                    )
                    break
                last = time
                count += 1
        except ValueError as error:
            reason = str(error)
        self.last_time = last
        return count, reason


def entry_time(raw: bytes) -> int:
    """Return the `ts` of an entry; raise `ValueError` with the reason if it is none.

    >>> import bson
    >>> entry_time(bson.encode({"ts": bson.Timestamp(1, 2), "op": "n", "ns": "", "o": {}})) == 1 << 32 | 2
    True
    """
    position = 4
    try:
        if raw.startswith(_LSID_LEAD, position):
            position += len(_LSID_LEAD) + _read_int32(raw, position + len(_LSID_LEAD))[0]
            if raw.startswith(_NUMBER_LEAD, position):
                position += len(_NUMBER_LEAD) + 8
        beginning = _PLAIN_BEGINNING.match(raw, max(position, 4))
        if beginning is not None:
            position = beginning.end()
            position += _read_int32(raw, position)[0]
            if raw.startswith(O2_LEAD, position):
                position += 4 + _read_int32(raw, position + 4)[0]
            if raw.startswith(_STATEMENT_LEAD, position):
                position += len(_STATEMENT_LEAD) + 4
            if raw.startswith(TAIL_LEADS[0], position):
                return int(_read_uint64(raw, position + 4)[0])
    except struct.error:
        pass  # the walk finds what is wrong
    return _time_by_walking(raw)


def _time_by_walking(raw: bytes) -> int:
    missing = set(_NEEDED)
    time = 0
    try:
        for kind, name, start, end in rawbson.elements(raw):
            if name in missing and kind == _NEEDED[name][0]:
                missing.remove(name)
                if name == b"ts":
                    time = _read_uint64(raw, start)[0]
                elif name == b"op" and raw[start:end] == _NO_OP:
                    missing.discard(b"o")
    except BsonError as error:
        raise ValueError(error.message) from None
    for name in _NEEDED:
        if name in missing:
            raise ValueError(f"not an oplog entry: it has no {_NEEDED[name][1]} called `{name.decode()}`")
    return time


def widened(raw: bytes, prefix: bytes = b"") -> bytes:
    """Return the entry with its envelope's counters as 64-bit numbers.

    Relaxed Extended JSON writes small 64-bit numbers as bare ones, which read back as 32-bit.
    """
    parts = []
    for kind, name, start, end in rawbson.elements(raw):
        path = prefix + name
        value = raw[start:end]
        if kind == rawbson.INT32 and path in _WIDE:
            kind, value = rawbson.INT64, rawbson.INT64_LE.pack(_read_int32(raw, start)[0])
        elif kind == rawbson.DOCUMENT and path in (b"prevOpTime", b"lsid"):
            value = widened(value, path + b".")
        parts.append(rawbson.element(kind, name, value))
    return rawbson.document(*parts)
