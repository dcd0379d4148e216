"""Log in: passwords, mechanisms, failures, and what a client may do before it."""

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.bson.documents import decode
from tests.mongod.server.access.conftest import ROOT
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running

Client = MongoClient[Document]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", None])
def test_a_user_logs_in(guarded: RunningServer, mechanism: str | None) -> None:
    options = {} if mechanism is None else {"authMechanism": mechanism}
    with connected(guarded, username=ROOT[0], password=ROOT[1], **options) as client:
        client.shop.orders.insert_one({"x": 1})
        status = client.admin.command("connectionStatus")["authInfo"]
    assert status["authenticatedUsers"] == [{"user": "root", "db": "admin"}]
    assert status["authenticatedUserRoles"] == [{"role": "root", "db": "admin"}]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [(ROOT[0], "wrong"), ("nobody", ROOT[1])])
def test_a_wrong_name_or_password_is_refused(
    guarded: RunningServer, mechanism: str, user: str, password: str
) -> None:
    with (
        connected(guarded, username=user, password=password, authMechanism=mechanism) as client,
        pytest.raises(OperationFailure) as failure,
    ):
        client.admin.command("ping")
    assert failure.value.code == 18
    assert failure.value.details is not None
    assert failure.value.details["errmsg"] == "Authentication failed."


def test_passwords_are_prepared(guarded: RunningServer, root: Client, place: str) -> None:
    # A ligature, a soft hyphen and an ideographic space: other keyboards type the second form.
    root[place].command("createUser", "p", pwd="\ufb01\u00adx\u3000y", roles=[])
    for typed in ("\ufb01\u00adx\u3000y", "fix y"):
        options = {"username": "p", "password": typed, "authSource": place}
        with connected(guarded, **options, authMechanism="SCRAM-SHA-256") as client:
            assert client.admin.command("ping")["ok"] == 1


def test_names_with_special_characters(guarded: RunningServer, root: Client, place: str) -> None:
    root[place].command("createUser", "a=b,c@d", pwd="p%=,", roles=[])
    with connected(guarded, username="a=b,c@d", password="p%=,", authSource=place) as client:
        status = client.admin.command("connectionStatus")["authInfo"]
    assert status["authenticatedUsers"] == [{"user": "a=b,c@d", "db": place}]


def test_mechanisms_of_a_user(guarded: RunningServer, root: Client, place: str) -> None:
    root[place].command("createUser", "new", pwd="p", roles=[], mechanisms=["SCRAM-SHA-256"])
    with raw_client(guarded) as raw:
        shown = raw.call({"hello": 1, "saslSupportedMechs": f"{place}.new"})
        assert shown["saslSupportedMechs"] == ["SCRAM-SHA-256"]
        assert "saslSupportedMechs" not in raw.call({"hello": 1, "saslSupportedMechs": f"{place}.nobody"})
        refused = raw.call(
            {"saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": b"n,,n=new,r=abc", "$db": place}
        )
        assert (refused["code"], refused["codeName"]) == (18, "AuthenticationFailed")
        unknown = raw.call({"saslStart": 1, "mechanism": "PLAIN", "payload": b"\0a\0b"})
        assert (unknown["code"], unknown["codeName"]) == (334, "MechanismUnavailable")


def test_before_a_log_in_only_the_handshake_is_allowed(guarded: RunningServer) -> None:
    with raw_client(guarded) as raw:
        for command in ("hello", "ping", "buildInfo", "connectionStatus", "whatsmyuri", "listCommands"):
            assert raw.call({command: 1})["ok"] == 1, command
        for command in ("find", "insert", "aggregate", "serverStatus", "listDatabases", "createUser",
                        "configureFailPoint", "setParameter", "shutdown", "getMore", "logout",
                        "startSession", "endSessions", "applyOps", "replSetStepDown"):  # fmt: skip
            reply = raw.call({command: 1})
            assert (reply["code"], reply["codeName"]) == (13, "Unauthorized"), command
            assert reply["errmsg"] == f"command {command} requires authentication"


def test_sessions_cannot_be_filled_without_a_log_in(guarded: RunningServer, root: Client) -> None:
    before = root.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"]
    with raw_client(guarded) as raw:
        for number in range(50):
            lsid = {"id": _uuid(number)}
            assert raw.call({"find": "x", "lsid": lsid})["code"] == 13
            assert raw.call({"replSetGetStatus": 1, "$db": "x", "lsid": lsid})["code"] == 13
    after = root.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"]
    assert after - before < 50


def test_clients_without_a_user_do_not_move_the_clock(guarded: RunningServer, root: Client) -> None:
    from bson import Timestamp

    now = root.admin.command("ping")["$clusterTime"]["clusterTime"]
    ahead = {"clusterTime": Timestamp(now.time + 86_400, 1), "signature": {"hash": b"\0" * 20, "keyId": 0}}
    with raw_client(guarded) as raw:
        assert raw.call({"ping": 1, "$clusterTime": ahead})["ok"] == 1
    assert root.admin.command("ping")["$clusterTime"]["clusterTime"].time < now.time + 3600


def test_failures_are_answered_later_and_later(guarded: RunningServer) -> None:
    with raw_client(guarded) as raw:
        times = []
        for _ in range(5):
            began = time.monotonic()
            payload = b"n,,n=guessed,r=abc"
            reply = raw.call({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload})
            assert reply["code"] == 18
            times.append(time.monotonic() - began)
    assert times[3] >= 0.1
    assert times[4] >= 0.2


def test_those_who_guess_on_many_connections_wait_one_after_the_other(guarded: RunningServer) -> None:
    attempt = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=sprayed,r=abc"}
    with ExitStack() as stack:
        guessing = [stack.enter_context(raw_client(guarded)) for _ in range(6)]
        began = time.monotonic()
        for raw in guessing:
            raw.send(attempt)
        for raw in guessing:
            assert decode(raw.receive().document)["code"] == 18
    assert time.monotonic() - began >= 0.1 + 0.2 + 0.4


def test_log_out(guarded: RunningServer) -> None:
    with connected(guarded, username=ROOT[0], password=ROOT[1], maxPoolSize=1) as client:
        client.shop.orders.find_one()
        client.admin.command("logout")
        with pytest.raises(OperationFailure) as failure:
            client.shop.orders.find_one()
    assert failure.value.code == 13


def test_a_user_that_is_removed_is_logged_out(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    client = as_user(["read"], place)
    assert client[place].orders.find_one() == {"_id": 1}
    root[place].command("dropAllUsersFromDatabase")
    with pytest.raises(OperationFailure) as failure:
        client[place].orders.find_one()
    assert failure.value.code in (13, 18)  # 18 on a new connection


def test_addresses_that_a_user_may_log_in_from(guarded: RunningServer, root: Client, place: str) -> None:
    here, elsewhere = [{"clientSource": ["127.0.0.0/8"]}], [{"clientSource": ["192.0.2.1"]}]
    root[place].command("createUser", "here", pwd="p", roles=[], authenticationRestrictions=here)
    root[place].command("createUser", "elsewhere", pwd="p", roles=[], authenticationRestrictions=elsewhere)
    with connected(guarded, username="here", password="p", authSource=place) as client:
        assert client.admin.command("ping")["ok"] == 1
    with (
        connected(guarded, username="elsewhere", password="p", authSource=place) as client,
        pytest.raises(OperationFailure) as failure,
    ):
        client.admin.command("ping")
    assert failure.value.code == 18


def test_the_first_user_is_created_from_this_machine() -> None:
    with running(auth=True) as server:
        with connected(server) as client:
            with pytest.raises(OperationFailure, match="not authorized"):
                client.shop.orders.find_one()
            with pytest.raises(OperationFailure, match="not authorized"):
                client.shop.command("createUser", "a", pwd="p", roles=[])
            client.admin.command("createUser", "first", pwd="p", roles=["root"])
            with pytest.raises(OperationFailure, match="requires authentication"):
                client.admin.command("createUser", "second", pwd="p", roles=["root"])
        with connected(server, username="first", password="p") as client:
            client.shop.orders.insert_one({})


def test_a_server_without_the_first_steps() -> None:
    with (
        running(auth=True, parameters={"enableLocalhostAuthBypass": False}) as server,
        connected(server) as client,
        pytest.raises(OperationFailure, match="requires authentication"),
    ):
        client.admin.command("createUser", "first", pwd="p", roles=["root"])


def test_users_and_log_ins_without_access_control() -> None:
    """As on a real server: users exist and log in, but rights are not checked."""
    with running() as server, connected(server) as client:
        client.shop.command("createUser", "u", pwd="p", roles=["read"])
        with connected(server, username="u", password="p", authSource="shop") as logged_in:
            logged_in.shop.orders.insert_one({"_id": 1})
            status = logged_in.admin.command("connectionStatus")["authInfo"]
        assert status["authenticatedUsers"] == [{"user": "u", "db": "shop"}]
        with (
            connected(server, username="u", password="wrong", authSource="shop") as wrong,
            pytest.raises(OperationFailure) as failure,
        ):
            wrong.shop.orders.find_one()
        assert failure.value.code == 18


def _uuid(number: int) -> object:
    from bson import Binary

    return Binary(number.to_bytes(16, "big"), 4)
