"""A repeated getMore: the shorter way to read it has the same result."""

import random
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import WireError
from tailrace.mongod.server.dispatch.command_body import read_body
from tailrace.mongod.wire import NEED_DATA, ClientConnection, Connection, Request

SEED = 3


def get_more(time: int = 5, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    signature = {"hash": bytes(20), "keyId": Int64(0)}
    return {
        "getMore": Int64(7),
        "collection": "orders",
        "lsid": {"id": Binary(bytes(range(16)), 4)},
        "$clusterTime": {"clusterTime": Timestamp(time, 1), "signature": signature},
        "$db": "shop",
    } | (changes or {})


def message(command: dict[str, Any], **options: Any) -> bytes:
    return ClientConnection().send(encode(command), **options)


def read(connection: Connection, data: bytes) -> Request:
    connection.receive_data(data)
    request = connection.next_message()
    assert request is not NEED_DATA
    return request


def after(command: dict[str, Any]) -> Connection:
    """A connection that has read a command."""
    connection = Connection()
    read(connection, message(command))
    return connection


def outcome(connection: Connection, data: bytes) -> object:
    """The result of reading a message."""
    try:
        connection.receive_data(data)
        request = connection.next_message()
    except WireError as fault:
        return str(fault)
    if request is NEED_DATA:
        return request
    error = None if request.error is None else (request.error.code, request.error.message)
    facts = (request.request_id, request.op_code, request.database, request.command, request.flags, error)
    if error is not None:
        return facts
    try:
        fields: object = read_body(request.command, request.decoded, is_exact=request.is_exact)
    except Exception as fault:
        fields = repr(fault)
    return *facts, fields, request.sequences


def test_only_the_time_differs() -> None:
    connection = after(get_more(5))
    request = read(connection, message(get_more(6)))
    assert request.is_exact
    assert request.decoded == get_more(6)
    assert list(request.decoded) == list(get_more())
    assert request.command == encode(get_more(6))
    assert request.database == "shop"


def test_a_command_without_a_time() -> None:
    command = get_more()
    del command["$clusterTime"]
    request = read(after(command), message(command))
    assert request.is_exact
    assert request.decoded == command


@pytest.mark.parametrize(
    "changed",
    [
        get_more(5, {"getMore": Int64(8)}),
        get_more(5, {"collection": "order5"}),
        get_more(5, {"$db": "shot"}),
        get_more(5, {"maxTimeMS": 5}),
        get_more(5, {"$clusterTime": {"clusterTime": Timestamp(5, 1)}}),
        get_more(5, {"$clusterTime": 5}),
    ],
)
def test_a_command_with_another_difference_is_decoded(changed: dict[str, Any]) -> None:
    request = read(after(get_more()), message(changed))
    assert read_body(request.command, request.decoded, is_exact=request.is_exact) == changed
    assert request.database == changed["$db"]


def test_a_request_does_not_share_changes_of_the_one_before() -> None:
    connection = after(get_more(5))
    first = read(connection, message(get_more(6)))
    assert first.decoded is not None
    first.decoded.clear()
    assert read(connection, message(get_more(7))).decoded == get_more(7)


def test_a_command_with_flags_is_decoded() -> None:
    assert read(after(get_more()), message(get_more(), exhaust_allowed=True)).exhaust_allowed


def test_a_name_inside_of_a_comment_is_not_the_time() -> None:
    inside = {"$clusterTime": {"clusterTime": Timestamp(1, 1)}}
    first, second = ({"getMore": Int64(1), "comment": {**inside, "n": n}, "$db": "a"} for n in (1, 2))
    assert decode(read(after(first), message(second)).command) == second


def test_damaged_messages_have_the_same_outcome_as_on_a_new_connection() -> None:
    rng = random.Random(SEED)
    good = message(get_more(5))
    for position in range(4, len(good)):
        for value in {0, 1, 2, 3, 255, good[position] ^ 1, rng.randrange(256)} - {good[position]}:
            damaged = good[:position] + bytes([value]) + good[position + 1 :]
            expected = outcome(Connection(), damaged)
            assert outcome(after(get_more(6)), damaged) == expected, f"byte {position} is {value}"
