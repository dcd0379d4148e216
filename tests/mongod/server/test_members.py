"""Sets of several members in one process, as drivers see them."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern, monitoring
from pymongo.errors import (
    AutoReconnect,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
    WriteConcernError,
)
from pymongo.read_preferences import Nearest, PrimaryPreferred, Secondary, SecondaryPreferred

from tailrace.errors import UsageError
from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]
SECONDS = 30
IMPATIENT = {"heartbeatFrequencyMS": 500, "serverSelectionTimeoutMS": 2000}
"""for clients of unreachable members: PyMongo tries to close cursors there"""


@pytest.fixture
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=3) as started:
        yield started


@contextmanager
def directly(replica_set: ReplicaSet, member: int) -> Iterator["MongoClient[Document]"]:
    """A client of one member, in any state."""
    uri = f"mongodb://{replica_set.members[member]}/?directConnection=true"
    with closing(MongoClient[Document](uri, serverSelectionTimeoutMS=2000)) as client:
        yield client


class Addresses(monitoring.CommandListener):
    """Records which member answered which command."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def of(self, command: str) -> set[str]:
        return {address for name, address in self.seen if name == command}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        host, port = event.connection_id
        self.seen.append((event.command_name, f"{host}:{port}"))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


def primary_of(client: "MongoClient[Document]") -> str | None:
    """The primary that a driver has found; waits for one, which may have stepped down since."""
    client.admin.command("ping")
    primary = client.primary
    return None if primary is None else f"{primary[0]}:{primary[1]}"


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that a driver's monitor will notice."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


# -- what members say of themselves -----------------------------------------------------------------------


def test_every_member_describes_the_set(replica_set: ReplicaSet) -> None:
    replies = []
    for number in range(3):
        with directly(replica_set, number) as client:
            replies.append(client.admin.command("hello"))
    first, *others = replies
    for number, reply in enumerate(replies):
        assert reply["hosts"] == replica_set.members
        assert reply["me"] == replica_set.members[number]
        assert reply["primary"] == replica_set.members[0]
        assert (reply["setName"], reply["setVersion"]) == ("rs0", 1)
        assert reply["lastWrite"]["opTime"] == first["lastWrite"]["opTime"]
    assert (first["isWritablePrimary"], first["secondary"]) == (True, False)
    assert all((reply["isWritablePrimary"], reply["secondary"]) == (False, True) for reply in others)
    assert "electionId" in first
    assert all("electionId" not in reply for reply in others)
    assert len({reply["topologyVersion"]["processId"] for reply in replies}) == 3


def test_the_address_of_the_set_names_all_members(replica_set: ReplicaSet) -> None:
    assert replica_set.uri == f"mongodb://{','.join(replica_set.members)}/?replicaSet=rs0"
    assert replica_set.primary == replica_set.members[0]


def test_status_and_configuration_show_all_members(replica_set: ReplicaSet) -> None:
    with replica_set.cut_off(2), directly(replica_set, 1) as client:
        status = client.admin.command("replSetGetStatus")
        config = client.admin.command("replSetGetConfig")["config"]
        section = client.admin.command("serverStatus")["repl"]
    shown = [(m["name"], m["stateStr"], m["health"], m.get("self", False)) for m in status["members"]]
    first, second, third = replica_set.members
    assert shown == [
        (first, "PRIMARY", 1.0, False),
        (second, "SECONDARY", 1.0, True),
        (third, "(not reachable/healthy)", 0.0, False),
    ]
    assert (status["myState"], status["syncSourceHost"], status["majorityVoteCount"]) == (2, first, 2)
    assert [(m["_id"], m["host"]) for m in config["members"]] == list(enumerate(replica_set.members))
    assert (section["hosts"], section["primary"], section["me"]) == (replica_set.members, first, second)


# -- reading and writing ----------------------------------------------------------------------------------


def test_a_secondary_accepts_reads_and_refuses_writes(replica_set: ReplicaSet) -> None:
    replica_set.client().shop.orders.insert_one({"_id": 1})
    with directly(replica_set, 1) as client:
        assert client.shop.orders.find_one() == {"_id": 1}
        with pytest.raises(NotPrimaryError) as failure:
            client.shop.orders.insert_one({})
        primary = {"$readPreference": {"mode": "primary"}}
        with pytest.raises(NotPrimaryError) as unread:
            client.shop.command({"find": "orders", **primary})
    assert isinstance(failure.value.details, dict)
    assert failure.value.details["code"] == 10107
    assert isinstance(unread.value.details, dict)
    assert unread.value.details["code"] == 13435


@pytest.mark.parametrize(
    ("preference", "members"),
    [
        (ReadPreference.PRIMARY, {0}),
        (PrimaryPreferred(), {0}),
        (Secondary(), {1, 2}),
        (SecondaryPreferred(), {1, 2}),
        (Nearest(), {0, 1, 2}),
    ],
)
def test_a_driver_follows_its_read_preference(
    replica_set: ReplicaSet, preference: Any, members: set[int]
) -> None:
    seen = Addresses()
    client = replica_set.client(event_listeners=[seen], localThresholdMS=10_000)
    client.shop.orders.insert_one({"_id": 1})
    orders = client.shop.orders.with_options(read_preference=preference)
    for _ in range(40):
        assert orders.find_one() == {"_id": 1}
    assert seen.of("find") <= {replica_set.members[number] for number in members}
    assert seen.of("insert") == {replica_set.members[0]}


def test_an_asynchronous_driver_follows_its_read_preference(replica_set: ReplicaSet) -> None:
    async def use() -> None:
        seen = Addresses()
        async with AsyncMongoClient[Document](replica_set.uri, event_listeners=[seen]) as client:
            orders = client.shop.orders
            secondary = orders.with_options(read_preference=Secondary())
            async with await secondary.watch() as stream:
                await orders.insert_one({"_id": 1})
                assert (await stream.next())["documentKey"] == {"_id": 1}
                replica_set.step_down()
                await orders.insert_one({"_id": 2})
                assert (await stream.next())["documentKey"] == {"_id": 2}
            assert await secondary.count_documents({}) == 2
            assert seen.of("insert") >= {replica_set.members[0], replica_set.members[1]}

    asyncio.run(use())


def test_writes_can_be_read_on_all_members(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    secondary = client.shop.orders.with_options(read_preference=Secondary())
    with client.start_session(causal_consistency=True) as session:
        for number in range(20):
            client.shop.orders.insert_one({"_id": number}, session=session)
            assert secondary.count_documents({}, session=session) == number + 1


@pytest.mark.parametrize(("number", "code"), [(2, None), (3, None), (4, 100)])
def test_a_write_concern_can_name_as_many_members_as_there_are(
    replica_set: ReplicaSet, number: int, code: int | None
) -> None:
    orders = replica_set.client().shop.get_collection("orders", write_concern=WriteConcern(w=number))
    if code is None:
        assert orders.insert_one({}).acknowledged
        return
    with pytest.raises(WriteConcernError) as failure:
        orders.insert_one({})
    assert failure.value.code == code


def test_a_cursor_belongs_to_its_member(replica_set: ReplicaSet) -> None:
    replica_set.client().shop.orders.insert_many([{} for _ in range(5)])
    with directly(replica_set, 1) as one, directly(replica_set, 2) as another:
        pipeline: list[Document] = [{"$changeStream": {}}]
        stream = one.shop.command("aggregate", "orders", pipeline=pipeline, cursor={})["cursor"]
        found = one.shop.command("find", "orders", batchSize=2)["cursor"]
        for cursor in (stream, found):
            with pytest.raises(OperationFailure) as failure:
                another.shop.command("getMore", cursor["id"], collection="orders")
            assert failure.value.code == 43
            killed = another.shop.command("killCursors", "orders", cursors=[cursor["id"]])
            assert killed["cursorsNotFound"] == [cursor["id"]]
        more = one.shop.command("getMore", found["id"], collection="orders")["cursor"]["nextBatch"]
        assert len(more) == 3


def test_parameters_and_fail_points_belong_to_their_member(replica_set: ReplicaSet) -> None:
    with directly(replica_set, 1) as one, directly(replica_set, 2) as another:
        one.admin.command("setParameter", 1, cursorTimeoutMillis=5)
        found = another.admin.command("getParameter", 1, cursorTimeoutMillis=1)
        assert found["cursorTimeoutMillis"] == 600_000
        with replica_set.fail_point(data={"failCommands": ["ping"], "errorCode": 6}, member=1):
            assert another.admin.command("ping")["ok"] == 1
            with pytest.raises(OperationFailure):
                one.admin.command("ping")


# -- elections --------------------------------------------------------------------------------------------


def test_another_member_becomes_primary_after_a_step_down(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    client.shop.orders.insert_one({"_id": 0})
    with directly(replica_set, 0) as old:
        before = old.admin.command("hello")
        old.admin.command("replSetStepDown", 60)
        client.shop.orders.insert_one({"_id": 1})
        after = old.admin.command("hello")
        with pytest.raises(NotPrimaryError) as failure:
            old.admin.command("replSetStepDown", 60)
    with directly(replica_set, 1) as new:
        elected = new.admin.command("hello")
    assert primary_of(client) == replica_set.primary == replica_set.members[1]
    assert (after["isWritablePrimary"], after["primary"]) == (False, replica_set.members[1])
    assert after["topologyVersion"]["counter"] > before["topologyVersion"]["counter"]
    assert elected["electionId"] > before["electionId"]
    assert elected["lastWrite"]["opTime"]["t"] > before["lastWrite"]["opTime"]["t"]
    assert "not primary" in str(failure.value)
    assert [e["o"]["msg"] for e in replica_set.oplog() if e["op"] == "n"][-1] == "new primary"


def test_a_member_that_stepped_down_stays_secondary_for_the_given_time() -> None:
    with ReplicaSet(members=2) as replica_set:
        first, second = replica_set.members
        orders = replica_set.client().shop.orders
        orders.insert_one({})
        replica_set.step_down(0.2)
        orders.insert_one({})
        assert replica_set.primary == second
        replica_set.step_down(60)
        orders.insert_one({})
        assert replica_set.primary == first


def test_a_member_can_be_made_primary(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    with client.shop.orders.watch() as stream, directly(replica_set, 2) as chosen:
        assert chosen.admin.command("replSetStepUp", 1)["ok"] == 1
        client.shop.orders.insert_one({"_id": 1})
        assert next(stream)["documentKey"] == {"_id": 1}
    assert primary_of(client) == replica_set.members[2]
    replica_set.step_up(1)
    client.shop.orders.insert_one({"_id": 2})
    assert primary_of(client) == replica_set.members[1]


def test_a_stream_loses_nothing_over_many_elections(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    shown = []
    with client.shop.orders.watch() as stream:
        for number in range(30):
            client.shop.orders.insert_one({"_id": number})
            if number % 3 == 0:
                replica_set.step_up(number // 3 % 3)
            shown.append(next(stream)["documentKey"]["_id"])
    assert shown == list(range(30))


def test_a_commit_is_known_to_the_next_primary(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    client.shop.orders.insert_one({"_id": 0})
    with client.start_session() as session:
        for number in (1, 2, 3):
            with session.start_transaction():
                client.shop.orders.insert_one({"_id": number}, session=session)
            replica_set.step_up(number % 3)
            session.commit_transaction()  # again, on a member that has not seen the transaction
    assert client.shop.orders.count_documents({}) == 4


def test_a_retried_write_is_known_to_the_next_primary(replica_set: ReplicaSet) -> None:
    client = replica_set.client()
    with client.start_session() as session:
        for number in (1, 2, 3, 4):
            command: Document = {"insert": "orders", "documents": [{"_id": number}]}
            command |= {"lsid": session.session_id, "txnNumber": Int64(number)}
            assert client.shop.command(command)["n"] == 1
            replica_set.step_up(number % 3)
            eventually(lambda: primary_of(client) == replica_set.primary)
            assert client.shop.command(command)["n"] == 1
    assert client.shop.orders.count_documents({}) == 4


# -- members that are cut off -----------------------------------------------------------------------------


def test_a_stream_continues_on_another_secondary(replica_set: ReplicaSet) -> None:
    seen = Addresses()
    client = replica_set.client(event_listeners=[seen], **IMPATIENT)
    orders = client.shop.orders
    with orders.with_options(read_preference=Secondary()).watch() as stream:
        (used,) = seen.of("aggregate")
        orders.insert_one({"_id": 1})
        assert next(stream)["documentKey"] == {"_id": 1}
        number = replica_set.members.index(used)
        with replica_set.cut_off(number):
            orders.insert_one({"_id": 2})
            assert next(stream)["documentKey"] == {"_id": 2}
    assert seen.of("aggregate") == set(replica_set.members[1:])
    assert seen.of("insert") == {replica_set.members[0]}
    eventually(lambda: len(client.secondaries) == 2)


def test_an_isolated_member_cannot_be_reached(replica_set: ReplicaSet) -> None:
    with directly(replica_set, 2) as client:
        client.admin.command("ping")
        with replica_set.cut_off(2):
            with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
                client.admin.command("ping")
            host, _, port = replica_set.members[2].rpartition(":")
            with socket.create_connection((host, int(port)), SECONDS) as connection:
                connection.settimeout(SECONDS)
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        assert client.admin.command("ping")["ok"] == 1


def test_an_isolated_primary_is_replaced(replica_set: ReplicaSet) -> None:
    orders = replica_set.client(**IMPATIENT).shop.orders
    with orders.watch() as stream:
        with replica_set.cut_off(0):
            orders.insert_one({"_id": 1})
            assert replica_set.primary == replica_set.members[1]
            assert next(stream)["documentKey"] == {"_id": 1}
        orders.insert_one({"_id": 2})
        assert next(stream)["documentKey"] == {"_id": 2}
    assert replica_set.primary == replica_set.members[1]
    with directly(replica_set, 0) as client:
        assert client.admin.command("hello")["secondary"] is True


def test_without_a_majority_there_is_no_primary(replica_set: ReplicaSet) -> None:
    client = replica_set.client(**IMPATIENT)
    orders = client.shop.orders
    orders.insert_one({"_id": 1})
    with replica_set.cut_off(1), replica_set.cut_off(2):
        assert replica_set.primary is None
        assert orders.with_options(read_preference=Secondary()).find_one() == {"_id": 1}
        with directly(replica_set, 0) as alone:
            assert "primary" not in alone.admin.command("hello")
            with pytest.raises(OperationFailure):
                alone.admin.command("replSetStepUp", 1)
    orders.insert_one({"_id": 2})
    assert orders.count_documents({}) == 2


def test_a_command_to_another_member_isolates_a_member(replica_set: ReplicaSet) -> None:
    def configure(mode: Any, member: object) -> None:
        fields = {"configureFailPoint": "cutOffMember", "mode": mode, "data": {"member": member}}
        with directly(replica_set, 0) as client:
            client.admin.command(fields)

    configure("alwaysOn", replica_set.members[1])
    with pytest.raises(ServerSelectionTimeoutError), directly(replica_set, 1) as client:
        client.admin.command("ping")
    configure("off", 1)
    with directly(replica_set, 1) as client:
        assert client.admin.command("ping")["ok"] == 1
    for unknown in (3, -1, "127.0.0.1:1", True):
        with pytest.raises(OperationFailure) as failure:
            configure("alwaysOn", unknown)
        assert failure.value.code == 2


def test_a_number_of_connections_is_refused(replica_set: ReplicaSet) -> None:
    client = replica_set.client(**IMPATIENT)
    command = {"configureFailPoint": "cutOffMember", "mode": {"times": 2}}
    assert client.admin.command(command)["ok"] == 1
    client.shop.orders.insert_one({"_id": 1})
    eventually(lambda: len(client.nodes) == 3 and len(client.secondaries) == 2)
    assert client.shop.orders.count_documents({}) == 1


def test_the_only_member_stays_primary_while_it_is_unreachable() -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client(**IMPATIENT)
        with client.shop.orders.watch() as stream:
            with replica_set.fail_point("cutOffMember", {"times": 2}) as cut_off:
                client.shop.orders.insert_one({"_id": 1})
                assert next(stream)["documentKey"] == {"_id": 1}
                assert cut_off.times_entered == 2
            assert replica_set.primary == replica_set.members[0]


# -- start and end ----------------------------------------------------------------------------------------


def test_a_restart_keeps_members_and_addresses(tmp_path: Path) -> None:
    with ReplicaSet(members=3, data=tmp_path) as replica_set:
        members = replica_set.members
        orders = replica_set.client(heartbeatFrequencyMS=500).shop.orders
        orders.insert_one({"_id": 0})
        replica_set.step_down()
        orders.insert_one({"_id": 1})
        replica_set.restart()
        assert replica_set.members == members
        assert replica_set.primary == members[0]
        orders.insert_one({"_id": 2})
        assert orders.count_documents({}) == 3


def two_ports() -> tuple[int, int]:
    """Two free consecutive ports."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one:
            first = int(one.getsockname()[1])
            with suppress(OSError), socket.create_server(("127.0.0.1", first + 1)):
                return first, first + 1


def test_members_use_the_next_ports() -> None:
    first, second = two_ports()
    with (
        ReplicaSet(port=second),
        pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{second}"),
        ReplicaSet(members=2, port=first),
    ):
        pass
    with ReplicaSet(members=2, port=first) as replica_set:
        assert replica_set.members == [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"members": 0}, "a set has 1 to 50 members"),
        ({"members": 51}, "a set has 1 to 50 members"),
        ({"members": 2, "replica_set": None}, "a standalone server has one member"),
        ({"members": 3, "advertise": "a:1,b:2"}, "name 3 of them"),
        ({"members": 3, "port": 65534}, "there are fewer than 3 ports from 65534 on"),
    ],
)
def test_impossible_options_are_refused_in_one_sentence(options: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ReplicaSet(**options).start()


def test_members_can_advertise_other_addresses() -> None:
    names = ["db0.example.net:27017", "db1.example.net:27017"]
    with ReplicaSet(members=2, advertise=",".join(names)) as replica_set:
        ports = [member.port for member in replica_set.server.members]
        for name, port in zip(names, ports, strict=True):
            uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
            with closing(MongoClient[Document](uri)) as client:
                hello = client.admin.command("hello")
            assert (hello["me"], hello["hosts"]) == (name, names)


def test_a_shutdown_of_one_member_stops_all(replica_set: ReplicaSet) -> None:
    with directly(replica_set, 1) as client, pytest.raises(AutoReconnect):
        client.admin.command("shutdown")
    with pytest.raises(ServerSelectionTimeoutError), directly(replica_set, 0) as client:
        client.admin.command("ping")


def test_older_releases_have_members_too() -> None:
    with ReplicaSet(members=3, server_version="4.4") as replica_set:
        client = replica_set.client()
        with client.shop.orders.with_options(read_preference=Secondary()).watch() as stream:
            replica_set.step_down()
            eventually(lambda: primary_of(client) == replica_set.primary)
            client.shop.orders.insert_one({"_id": 1})
            assert next(stream)["documentKey"] == {"_id": 1}
        assert client.server_info()["version"] == "4.4.0"
