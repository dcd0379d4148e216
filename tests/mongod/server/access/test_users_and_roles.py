"""Users and roles: what their commands change, what they show, and which rights follow."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.access.conftest import ROOT
from tests.mongod.server.running import Document, RunningServer, connected, running

Client = MongoClient[Document]


def code_of(work: Callable[[], object]) -> int | None:
    """The code of the error that a call ends with; None without one."""
    try:
        work()
    except OperationFailure as error:
        return error.code
    return None


def test_a_user_is_stored_without_the_password(root: Client, place: str) -> None:
    root[place].command("createUser", "u", pwd="secret", roles=["read"], customData={"a": 1})
    stored = root.admin["system.users"].find_one({"_id": f"{place}.u"})
    assert stored is not None
    assert list(stored) == ["_id", "userId", "user", "db", "credentials", "customData", "roles"]
    assert "secret" not in str(stored)
    assert stored["credentials"]["SCRAM-SHA-1"]["iterationCount"] == 10_000
    assert stored["credentials"]["SCRAM-SHA-256"]["iterationCount"] == 15_000
    entry = root.local["oplog.rs"].find_one({"ns": "admin.system.users", "o._id": f"{place}.u"})
    assert entry is not None
    assert entry["op"] == "i"
    shown = root[place].command("usersInfo", "u")["users"][0]
    assert "credentials" not in shown
    assert shown["mechanisms"] == ["SCRAM-SHA-1", "SCRAM-SHA-256"]


def test_users_survive_a_restart(tmp_path: Path) -> None:
    with running(auth=True, first_user=ROOT, data=tmp_path) as server:
        with connected(server, username=ROOT[0], password=ROOT[1]) as client:
            client.shop.command("createUser", "u", pwd="p", roles=["readWrite"])
        server.restart()
        with connected(server, username="u", password="p", authSource="shop") as client:
            client.shop.orders.insert_one({"_id": 1})
            assert code_of(lambda: client.other.orders.find_one()) == 13


def test_a_new_password(guarded: RunningServer, root: Client, place: str) -> None:
    root[place].command("createUser", "u", pwd="old", roles=[])
    root[place].command("updateUser", "u", pwd="new")
    with connected(guarded, username="u", password="new", authSource=place) as client:
        client.admin.command("ping")
    with connected(guarded, username="u", password="old", authSource=place) as client:
        assert code_of(lambda: client.admin.command("ping")) == 18


def test_rights_change_at_once_on_open_connections(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    client = as_user([], place)
    name = root[place].command("usersInfo", 1)["users"][0]["user"]
    read, write = (lambda: client[place].orders.find_one()), (lambda: client[place].orders.insert_one({}))
    assert (code_of(read), code_of(write)) == (13, 13)
    root[place].command("grantRolesToUser", name, roles=["read"])
    assert (code_of(read), code_of(write)) == (None, 13)
    root[place].command("updateUser", name, roles=["readWrite"])
    assert (code_of(read), code_of(write)) == (None, None)
    root[place].command("revokeRolesFromUser", name, roles=["readWrite"])
    assert (code_of(read), code_of(write)) == (13, 13)


def test_roles_of_ones_own(root: Client, as_user: Callable[..., Client], place: str) -> None:
    orders = {"db": place, "collection": "orders"}
    root[place].command(
        "createRole", "inner", privileges=[{"resource": orders, "actions": ["find"]}], roles=[]
    )
    root[place].command("createRole", "outer", privileges=[], roles=["inner"])
    client = as_user([{"role": "outer", "db": place}])
    read, other = (lambda: client[place].orders.find_one()), (lambda: client[place].other.find_one())
    insert = lambda: client[place].orders.insert_one({})  # noqa: E731
    assert (code_of(read), code_of(other), code_of(insert)) == (None, 13, 13)
    root[place].command(
        "grantPrivilegesToRole", "inner", privileges=[{"resource": orders, "actions": ["insert"]}]
    )
    assert code_of(insert) is None
    root[place].command(
        "revokePrivilegesFromRole", "inner", privileges=[{"resource": orders, "actions": ["find"]}]
    )
    assert (code_of(read), code_of(insert)) == (13, None)
    root[place].command("grantRolesToRole", "outer", roles=["read"])
    assert (code_of(read), code_of(other)) == (None, None)
    root[place].command("dropRole", "inner")
    assert (code_of(read), code_of(insert)) == (None, 13)
    assert root[place].command("rolesInfo", "outer")["roles"][0]["roles"] == [{"role": "read", "db": place}]
    root[place].command("dropAllRolesFromDatabase")
    assert code_of(read) == 13


def test_users_that_are_written_directly_count(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    restorer = as_user(["restore"])
    client = as_user(["read"], place)
    name = root[place].command("usersInfo", 1)["users"][0]["user"]
    assert code_of(lambda: client[place].orders.find_one()) is None
    restorer.admin["system.users"].update_one({"_id": f"{place}.{name}"}, {"$set": {"roles": []}})
    assert code_of(lambda: client[place].orders.find_one()) == 13


def test_who_may_manage_users(root: Client, as_user: Callable[..., Client], place: str) -> None:
    admin, reader = as_user(["userAdmin"], place), as_user(["read"], place)
    admin[place].command("createUser", "new", pwd="p", roles=["dbOwner"])
    assert code_of(lambda: admin.other.command("createUser", "new", pwd="p", roles=[])) == 13
    other = [{"role": "read", "db": "other"}]
    assert code_of(lambda: admin[place].command("createUser", "b", pwd="p", roles=other)) == 13
    assert code_of(lambda: admin[place].command("createUser", "b", pwd="p", roles=["root"])) == 31
    assert code_of(lambda: admin.admin.command("createUser", "b", pwd="p", roles=["root"])) == 13
    for command in ("createUser", "updateUser"):
        assert code_of(lambda: reader[place].command(command, "x", pwd="p", roles=[])) == 13  # noqa: B023
    assert code_of(lambda: reader[place].command("dropUser", "new")) == 13
    assert code_of(lambda: reader[place].command("usersInfo", 1)) == 13
    own = reader.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]
    assert reader[place].command("usersInfo", own)["users"][0]["user"] == own["user"]


def test_a_user_may_have_the_right_to_the_own_password_only(
    guarded: RunningServer, root: Client, as_user: Callable[..., Client], place: str
) -> None:
    resource = {"db": place, "collection": ""}
    actions = ["changeOwnPassword", "changeOwnCustomData"]
    root[place].command(
        "createRole", "own", privileges=[{"resource": resource, "actions": actions}], roles=[]
    )
    root[place].command("createUser", "other", pwd="p", roles=[])
    client = as_user(["own"], place)
    name = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]["user"]
    client[place].command("updateUser", name, pwd="mine", customData={"a": 1})
    assert code_of(lambda: client[place].command("updateUser", "other", pwd="mine")) == 13
    with connected(guarded, username=name, password="mine", authSource=place) as again:
        again.admin.command("ping")


def test_lists_show_what_a_user_may_see(root: Client, as_user: Callable[..., Client], place: str) -> None:
    root[place].secret.insert_one({})
    orders = {"db": place, "collection": "orders"}
    root.admin.command("createRole", place, privileges=[{"resource": orders, "actions": ["find"]}], roles=[])
    client = as_user([place])
    assert client.list_database_names() == [place]
    assert code_of(lambda: client[place].command("listCollections")) == 13
    listed = client[place].command("listCollections", nameOnly=True, authorizedCollections=True)
    assert [found["name"] for found in listed["cursor"]["firstBatch"]] == ["orders"]
    assert set(root[place].list_collection_names()) >= {"orders", "secret"}


def test_passwords_are_not_logged(guarded: RunningServer, root: Client, place: str) -> None:
    with connected(guarded, username=ROOT[0], password=ROOT[1]) as client:
        client[place].command("createUser", "u", pwd="a very secret word", roles=[])
    root[place].command("updateUser", "u", pwd="a very secret word")
    assert "a very secret word" not in str(guarded.log())
    with pytest.raises(OperationFailure) as failure, connected(guarded, username="u", password="a very secret word", authSource=place) as client:  # fmt: skip # noqa: E501
        client[place].command("createUser", "v", pwd="a very secret word", roles=[])
    assert "a very secret word" not in str(failure.value)
