"""Tokens built from cached bytes equal those of the general encoder."""

import random
from typing import Any

import pytest
from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.events.change_event import ChangeEvent, DdlParts, make_kind
from tailrace.events.event_token import resume_token, token_document
from tailrace.events.oplog_entry import Extras, Head, OplogEntry

END = make_kind("endOfTransaction", "", None, None, shows_ns=False)
SESSIONS: list[dict[str, Any]] = [
    {"lsid": {"id": Binary(bytes(range(16)), 4), "uid": bytes(32)}},
    {"lsid": {"id": Binary(bytes(16), 4), "uid": bytes(range(32))}},
    {"lsid": {"id": 2.5, "text": "x"}},
    {},
]
NUMBERS = [0, 1, 127, 128, 255, 256, 1 << 31, (1 << 53) - 1, 1 << 53, (1 << 63) - 1, -1, -(1 << 63)]


def end_of_transaction(description: bytes, ts: int, count: int) -> ChangeEvent:
    extras = Extras(in_apply_ops=True, operations_before=count)
    entry = OplogEntry(rawbson.EMPTY, Head("n", "", None), rawbson.EMPTY, None, ts, 1, bytes(8), extras)
    return ChangeEvent(entry, END, ddl=DdlParts(description=description))


@pytest.mark.parametrize("session", SESSIONS)
def test_tokens_of_ends_of_transactions_equal_those_of_the_general_encoder(session: dict[str, Any]) -> None:
    rng = random.Random(5)
    for number in [*NUMBERS, *(rng.randrange(1 << rng.randrange(1, 63)) for _ in range(200))]:
        description = encode(session | {"txnNumber": Int64(number)})
        event = end_of_transaction(description, rng.randrange(1 << 63), rng.choice((0, 1, 4, 300)))
        assert token_document(event) == resume_token(event).to_bson(), number


def test_a_value_that_contains_the_bytes_of_a_transaction_number() -> None:
    for number in (1, 2):
        inside = Binary(b"\x12txnNumber\0" + number.to_bytes(8, "little"), 0)
        event = end_of_transaction(encode({"x": inside}), 1, 1)
        assert token_document(event) == resume_token(event).to_bson()
