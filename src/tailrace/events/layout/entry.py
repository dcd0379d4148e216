"""A plain oplog entry: where its documents and times are.

Nearly all entries of an oplog are inserts, updates and deletes that have this form, or the fields of a
retryable write around it::

    [lsid  txnNumber]  op  ns  ui  o  [o2]  [stmtId]  ts  t  v  wall  [prevOpTime]

From `op` up to the bytes of `o`, all entries of one operation on one collection are the same, and `TAIL` is
the same for all. Entries with any other field are read by walking through them.
"""

from struct import Struct
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.layout.template import TERM, TIME, WALL, Hole

# -- the beginning ------------------------------------------------------------------------------------------

OP_LEAD: Final = b"\x02op\0\x02\0\0\0"
"""What every entry of this form begins with, after its size; then come one letter and a NUL"""
OP: Final = 4 + len(OP_LEAD)
"""Where the letter of the operation is"""
COMMAND_START: Final = OP_LEAD + b"c\0"
"""The beginning of a command, in place of `OP_LEAD`"""
NS_LEAD: Final = b"\x02ns\0"
NS_SIZE: Final = OP + 2 + len(NS_LEAD)
"""Where the size of the namespace is"""
UI_LEAD: Final = b"\x05ui\0\x10\0\0\0\x04"
O_LEAD: Final = b"\x03o\0"
O2_LEAD: Final = b"\x03o2\0"
O_BASE: Final = NS_SIZE + 4 + len(UI_LEAD) + 16 + len(O_LEAD)
"""Where `o` begins, but for the size of the namespace"""


def beginning(op: str, ns: str, uuid: bytes) -> bytes:
    """An entry from after its size up to the bytes of `o`."""
    return b"".join((OP_LEAD, op.encode(), b"\0", rawbson.string(b"ns", ns.encode()), UI_LEAD, uuid, O_LEAD))


# -- the end ------------------------------------------------------------------------------------------------

VERSION: Final = "version"
"""`v`, the version of the entry's format"""

TAIL: Final[tuple[tuple[str, int, Hole], ...]] = (
    ("ts", rawbson.TIMESTAMP, TIME),
    ("t", rawbson.INT64, TERM),
    ("v", rawbson.INT64, VERSION),
    ("wall", rawbson.DATE, WALL),
)
"""The fields after the documents, eight bytes each; a NUL ends the entry"""

TAIL_LEADS: Final = tuple(b"%c%b\0" % (kind, name.encode()) for name, kind, _ in TAIL)
TAIL_WIDTH: Final = 8
"""The size of each of their values"""
TAIL_SIZE: Final = sum(len(lead) + TAIL_WIDTH for lead in TAIL_LEADS) + 1
TAIL_LEAD_OFFSETS: Final = tuple(
    sum(len(lead) + TAIL_WIDTH for lead in TAIL_LEADS[:place]) for place in range(len(TAIL_LEADS))
)
PREVIOUS_LEAD: Final = b"\x03prevOpTime\0\x1c\0\0\0"
"""What a retryable write has after `TAIL`: `prevOpTime` up to its fields"""
PREVIOUS_SIZE: Final = len(PREVIOUS_LEAD) + 0x1C - 4
TAIL_OFFSETS: Final[dict[Hole, int]] = {
    hole: offset + len(lead)
    for (_, _, hole), offset, lead in zip(TAIL, TAIL_LEAD_OFFSETS, TAIL_LEADS, strict=True)
}
"""Where the values are in the tail"""


def _struct(**formats: str) -> Struct:
    parts = [
        f"{len(lead)}s{formats.get(hole, 'q')}" for (_, _, hole), lead in zip(TAIL, TAIL_LEADS, strict=True)
    ]
    return Struct("<" + "".join(parts) + "B")


TAIL_STRUCT: Final = _struct(**{TIME: "Q"})
"""Names and values in turn, then the final NUL"""
TAIL_SLICES: Final = _struct(**{TIME: "Q", VERSION: "8s", WALL: "8s"})
"""The same for readers, who take the date as bytes"""


def tail(ts: int, term: int, wall: int) -> bytes:
    """The fields after the documents, without the final NUL; ``wall`` is in milliseconds."""
    ts_lead, t_lead, v_lead, wall_lead = TAIL_LEADS
    return TAIL_STRUCT.pack(ts_lead, ts, t_lead, term, v_lead, _FORMAT_VERSION, wall_lead, wall, 0)[:-1]


_FORMAT_VERSION: Final = 2
