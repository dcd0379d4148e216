"""Both ends of a connection, joined without a socket."""

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from tailrace.bson import raw
from tailrace.bson.documents import decode
from tailrace.errors import CommandError, WireError
from tailrace.mongod.wire import (
    COMPRESSORS,
    MAX_MESSAGE_SIZE,
    NEED_DATA,
    ClientConnection,
    Connection,
    OpCode,
    Reply,
    Request,
    op_msg,
    op_query,
    op_reply,
)
from tailrace.mongod.wire.compression import NEVER_COMPRESSED
from tailrace.mongod.wire.header import decode as decode_header
from tailrace.mongod.wire.op_query import OpQuery
from tests.mongod.wire.messages import doc, feeds, message, recorded

PING = {"ping": 1, "$db": "admin"}
OK = doc(ok=1.0)


def requests(data: bytes, server: Connection | None = None) -> list[Request]:
    server = server or Connection()
    server.receive_data(data)
    found = []
    while (request := server.next_message()) is not NEED_DATA:
        found.append(request)
    return found


def one_request(data: bytes, server: Connection | None = None) -> Request:
    """The single request in the data, which must be the same for all ways of arrival."""
    found = requests(data, server)
    for pieces in feeds(data) if len(data) < 10_000 else ():
        other = Connection()
        seen: list[Request] = []
        for piece in pieces:
            seen += requests(piece, other)
        assert [(item.name, item.database, item.command) for item in seen] == [
            (item.name, item.database, item.command) for item in found
        ]
    assert len(found) == 1
    return found[0]


def one_reply(client: ClientConnection, data: bytes) -> Reply:
    client.receive_data(data)
    reply = client.next_message()
    assert reply is not NEED_DATA
    assert client.next_message() is NEED_DATA
    return reply


@pytest.mark.parametrize("compressor", [None, *COMPRESSORS])
@pytest.mark.parametrize("checksum", [False, True])
def test_a_command_and_its_reply(compressor: str | None, checksum: bool) -> None:
    client, server = ClientConnection(compressor=compressor, checksum=checksum), Connection()
    documents = [doc(_id=1), doc(_id=2)]
    sent = client.send(doc(insert="c", **{"$db": "shop"}), {"documents": documents})
    request = one_request(sent, server)
    assert (request.name, request.database, request.sequences) == ("insert", "shop", {"documents": documents})
    assert decode(request.merged_command()) == {
        "insert": "c", "$db": "shop", "documents": [{"_id": 1}, {"_id": 2}]
    }  # fmt: skip
    assert request.error is None
    answer = server.send(request, OK)
    reply = one_reply(client, answer)
    assert (reply.document, reply.response_to, reply.more_to_come) == (OK, client.last_request_id, False)
    assert reply.compressor is request.compressor is (COMPRESSORS[compressor] if compressor else None)
    assert bool(reply.flags & op_msg.CHECKSUM_PRESENT) is checksum
    expected = OpCode.OP_COMPRESSED if compressor else OpCode.OP_MSG
    assert decode_header(sent, 0).op_code is decode_header(answer, 0).op_code is expected


def test_ids_count_up_and_start_again() -> None:
    client, server = ClientConnection(), Connection()
    ids = [
        one_reply(client, server.send(one_request(client.send(doc(**PING)), server), OK)) for _ in range(3)
    ]
    assert [(reply.request_id, reply.response_to) for reply in ids] == [(1, 1), (2, 2), (3, 3)]
    client._request_id = 2**31 - 2
    client.send(doc(**PING))
    assert client.last_request_id == 2**31 - 1
    client.send(doc(**PING))
    assert client.last_request_id == 1


def test_requests_in_one_read_are_answered_one_by_one() -> None:
    client, server = ClientConnection(), Connection()
    data = b"".join(client.send(doc(ping=number, **{"$db": "admin"})) for number in range(500))
    found = requests(data, server)
    assert [decode(request.command)["ping"] for request in found] == [*range(500)]
    client.receive_data(b"".join(server.send(request, OK) for request in reversed(found)))
    replies = []
    while (reply := client.next_message()) is not NEED_DATA:
        replies.append(reply.response_to)
    assert replies == [*range(500, 0, -1)]


def test_a_command_without_reply() -> None:
    client, server = ClientConnection(), Connection()
    request = one_request(client.send(doc(**PING), more_to_come=True), server)
    assert not request.expects_reply
    assert server.send(request, OK) == b""
    assert one_reply(client, server.send(one_request(client.send(doc(**PING)), server), OK)).request_id == 1


def test_an_exhaust_command_has_several_replies() -> None:
    client, server = ClientConnection(compressor="zlib", checksum=True), Connection()
    request = one_request(client.send(doc(getMore=1, **{"$db": "shop"}), exhaust_allowed=True), server)
    other = one_request(client.send(doc(**PING)), server)
    replies = [
        one_reply(client, server.send(request, doc(n=number), more_to_come=number < 3)) for number in range(4)
    ]
    assert [reply.more_to_come for reply in replies] == [True, True, True, False]
    assert [reply.response_to for reply in replies] == [
        request.request_id, *(reply.request_id for reply in replies[:-1])
    ]  # fmt: skip
    assert one_reply(client, server.send(other, OK)).response_to == other.request_id
    again = one_reply(client, server.send(request, OK))
    assert again.response_to == request.request_id


def test_exhaust_needs_the_clients_permission() -> None:
    client, server = ClientConnection(), Connection()
    request = one_request(client.send(doc(**PING)), server)
    with pytest.raises(ValueError, match="only one reply"):
        server.send(request, OK, more_to_come=True)


def test_a_reply_that_is_too_large_can_be_replaced() -> None:
    client, server = ClientConnection(), Connection()
    request = one_request(client.send(doc(**PING), exhaust_allowed=True), server)
    first = one_reply(client, server.send(request, OK, more_to_come=True))
    with pytest.raises(CommandError) as raised:
        server.send(request, bytes(MAX_MESSAGE_SIZE - 20))
    assert raised.value.code == 10334
    assert one_reply(client, server.send(request, OK)).response_to == first.request_id


def test_a_command_that_is_too_large_is_not_sent() -> None:
    client = ClientConnection(compressor="zlib")
    with pytest.raises(CommandError) as raised:
        client.send(doc(**PING), {"documents": [doc(x=bytes(16_000_000))] * 3})
    assert raised.value.code == 10334


@pytest.mark.parametrize("name", [*sorted(NEVER_COMPRESSED), "isMaster", "saslStart", "copydbSaslStart"])
def test_a_client_does_not_compress_secrets(name: str) -> None:
    client = ClientConnection(compressor="zstd")
    assert decode_header(client.send(doc(**{name: 1})), 0).op_code is OpCode.OP_MSG


def test_messages_of_a_driver() -> None:
    names = ["ping", "insert", "ping-snappy", "bulkWrite", "ping-zlib", "ping-zstd", "hello-exhaust"]
    found = requests(b"".join(map(recorded, names)))
    assert [request.name for request in found] == [name.partition("-")[0] for name in names]
    assert [request.database for request in found] == ["admin", "test", *["admin"] * 5]
    assert found[-1].exhaust_allowed


# --- The legacy handshake


def query(document: bytes, namespace: str = "admin.$cmd", **fields: Any) -> bytes:
    return op_query.encode(OpQuery(namespace, document, **fields), 9)


def test_the_legacy_handshake() -> None:
    client, server = ClientConnection(compressor="zlib"), Connection()
    sent = client.send_handshake(doc(isMaster=1, helloOk=True))
    request = one_request(sent, server)
    assert (request.name, request.database, request.op_code) == ("isMaster", "admin", OpCode.OP_QUERY)
    assert decode(request.command) == {"isMaster": 1, "helloOk": True, "$db": "admin"}
    answer = server.send(request, OK)
    assert decode_header(answer, 0).op_code is OpCode.OP_REPLY
    reply = one_reply(client, answer)
    assert (reply.document, reply.flags, reply.response_to) == (OK, op_reply.AWAIT_CAPABLE, 1)


def test_the_first_message_of_a_driver() -> None:
    """Flags and counts of most drivers: secondaries may reply, one document, no cursor."""
    hello = {"ismaster": 1, "helloOk": True, "compression": ["zstd"], "client": {"driver": {"name": "x"}}}
    request = one_request(query(doc(**hello), flags=4, number_to_return=-1))
    assert decode(request.command) == {**hello, "$db": "admin"}
    assert (request.expects_reply, request.exhaust_allowed, request.error) == (True, False, None)


def test_a_wrapped_query_is_unwrapped() -> None:
    preference = {"mode": "nearest"}
    wrapped = doc(**{"$query": {"hello": 1}, "$readPreference": preference, "$orderby": {"x": 1}})
    request = one_request(query(wrapped, "shop.$cmd"))
    assert decode(request.command) == {"hello": 1, "$readPreference": preference, "$db": "shop"}


@pytest.mark.parametrize(
    ("document", "command"),
    [
        ({"$query": {"hello": 1}}, {"hello": 1}),
        ({"query": {"hello": 1}, "x": 1}, {"hello": 1}),
        ({"hello": 1, "$query": {"ping": 1}}, {"hello": 1, "$query": {"ping": 1}}),
        ({"hello": 1, "$readPreference": {}}, {"hello": 1, "$readPreference": {}}),
    ],
)
@pytest.mark.parametrize("number", [1, -1])
def test_forms_of_queries(document: dict[str, Any], command: dict[str, Any], number: int) -> None:
    request = one_request(query(doc(**document), number_to_return=number))
    assert request.error is None
    assert decode(request.command) == {**command, "$db": "admin"}


REFUSED_QUERIES = {
    "two documents to return": (query(doc(hello=1), number_to_return=2), 16979),
    "another command in a query": (query(doc(**{"$query": {"find": "c"}})), 352),
    "another command": (query(doc(find="c")), 352),
    "no command": (query(doc()), 352),
    "a query that is no document": (query(doc(**{"$query": 1})), 352),
    "a collection": (query(doc(), "shop.orders"), 5739101),
    "no namespace": (query(doc(hello=1), ""), 5739101),
    "an exhausted command": (query(doc(hello=1), flags=1 << 6), 18527),
    "no document to return": (query(doc(hello=1), number_to_return=0), 16979),
    "a database in the command": (query(doc(hello=1, **{"$db": "x"})), 40621),
    "no BSON": (query(b"\x08\0\0\0\x0aabc"), 22),
    "a removed opcode": (message(OpCode.OP_GET_MORE, b"anything", request_id=9), 5739101),
}


@pytest.mark.parametrize(("data", "code"), REFUSED_QUERIES.values(), ids=REFUSED_QUERIES)
def test_queries_with_an_error_reply(data: bytes, code: int) -> None:
    client, server = ClientConnection(), Connection()
    request = one_request(data, server)
    assert request.error is not None
    reply = one_reply(client, server.refuse(request))
    assert (reply.op_code, reply.response_to) == (OpCode.OP_REPLY, 9)
    answer = decode(reply.document)
    assert (answer["code"], answer["ok"]) == (code, 0.0)
    removed = code == 5739101
    assert answer["$err" if removed else "errmsg"] == request.error.message
    assert reply.flags == (op_reply.QUERY_FAILURE if removed else op_reply.AWAIT_CAPABLE)


REFUSED_COMMANDS: dict[str, tuple[Callable[[ClientConnection], bytes], int, str]] = {
    "no database": (lambda client: client.send(doc(ping=1)), 40571, "Location40571"),
    "a database that is no text": (
        lambda client: client.send(doc(ping=1, **{"$db": 5})), 13111, "Location13111"
    ),
    "a body that is no BSON": (
        lambda client: client.send(raw.document(b"\x20")), 22, "InvalidBSON"
    ),
    "a field twice": (
        lambda client: client.send(doc(**PING), {"ping": []}), 40433, "Location40433"
    ),
}  # fmt: skip


@pytest.mark.parametrize("compressor", [None, "snappy"])
@pytest.mark.parametrize(("send", "code", "name"), REFUSED_COMMANDS.values(), ids=REFUSED_COMMANDS)
def test_commands_with_an_error_reply(
    send: Callable[[ClientConnection], bytes], code: int, name: str, compressor: str | None
) -> None:
    client, server = ClientConnection(compressor=compressor, checksum=True), Connection()
    request = one_request(send(client), server)
    reply = one_reply(client, server.refuse(request))
    answer = decode(reply.document)
    assert (answer["ok"], answer["code"], answer["codeName"]) == (0.0, code, name)
    assert reply.compressor is request.compressor
    assert one_reply(client, server.send(one_request(client.send(doc(**PING)), server), OK)).document == OK


def test_only_a_refused_request_is_refused() -> None:
    server = Connection()
    with pytest.raises(ValueError, match="has no error"):
        server.refuse(one_request(ClientConnection().send(doc(**PING)), server))


# --- The end of a connection

CLOSING = {
    "OP_REPLY": (message(OpCode.OP_REPLY, bytes(20)), "OP_REPLY"),
    "OP_UPDATE": (message(OpCode.OP_UPDATE, b""), "OP_UPDATE"),
    "OP_INSERT": (message(OpCode.OP_INSERT, bytes(4) + b"shop.orders\0" + OK), "OP_INSERT"),
    "OP_DELETE": (message(OpCode.OP_DELETE, b""), "OP_DELETE"),
    "OP_KILL_CURSORS": (message(OpCode.OP_KILL_CURSORS, b""), "OP_KILL_CURSORS"),
    "OP_COMMAND": (message(OpCode.OP_COMMAND, b""), "OP_COMMAND"),
    "an unknown opcode": (message(999, b""), "no opcode 999"),
    "a packed OP_INSERT": (
        message(OpCode.OP_COMPRESSED, pack("<iiB", OpCode.OP_INSERT, 0, 0)), "OP_INSERT"
    ),
    "an oversized message": (message(OpCode.OP_MSG, b"", length=48_000_001), "48000001"),
    "no flags": (message(OpCode.OP_MSG, b""), "before its flags"),
    "a lying document": (message(OpCode.OP_MSG, bytes(5) + pack("<i", 77)), "77 bytes"),
    "TLS": (bytes.fromhex("16030100f5010000f1030300000000000000"), "no opcode"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), CLOSING.values(), ids=CLOSING)
def test_a_fault_is_final_but_earlier_messages_are_returned(data: bytes, reason: str) -> None:
    client, server = ClientConnection(), Connection()
    server.receive_data(client.send(doc(**PING)) + data + client.send(doc(**PING)))
    request = server.next_message()
    assert isinstance(request, Request)
    client.receive_data(server.send(request, OK))
    with pytest.raises(WireError, match=reason):
        server.next_message()
    assert server.buffered == 0
    for use in (
        server.next_message, lambda: server.receive_data(b"x"), lambda: server.send(request, OK)
    ):  # fmt: skip
        with pytest.raises(WireError, match=f"has to be closed: .*{reason}"):
            use()


def test_a_server_accepts_the_compressors_it_was_given() -> None:
    sent = ClientConnection(compressor="zlib").send(doc(**PING))
    assert one_request(sent, Connection(["zlib"])).name == "ping"
    with pytest.raises(WireError, match="compressor 2"):
        one_request(sent, Connection(["snappy", "zstd"]))


@pytest.mark.parametrize(
    "data",
    [
        message(OpCode.OP_QUERY, b""),
        message(OpCode.OP_MSG, bytes(4)),
        message(OpCode.OP_MSG, bytes(5) + b"\x08\0\0\0\x0aabc"),
        op_reply.encode(op_reply.OpReply(()), 1, 1),
        op_reply.encode(op_reply.OpReply((b"\x08\0\0\0\x0aabc",)), 1, 1),
    ],
    ids=["OP_QUERY", "no body", "no BSON", "no document", "no BSON in OP_REPLY"],
)
def test_a_client_closes_on_a_reply_it_cannot_read(data: bytes) -> None:
    client = ClientConnection()
    client.receive_data(data)
    with pytest.raises(WireError):
        client.next_message()
    with pytest.raises(WireError):
        client.send(OK)


def test_buffers_of_any_kind_are_accepted() -> None:
    data = ClientConnection().send(doc(**PING))
    server = Connection()
    piece = bytearray(data[:30])
    server.receive_data(piece)
    piece[:] = bytes(30)  # the caller reads into it again
    assert server.next_message() is NEED_DATA
    assert server.buffered == 30
    server.receive_data(memoryview(data)[30:])
    assert isinstance(server.next_message(), Request)
    assert server.buffered == 0
