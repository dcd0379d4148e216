"""Users of a real server log in through `tailrace serve --source`, and may watch what they may there."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.errors import AccessError
from tailrace.sources.recorded.via import Via
from tests.mongod.front.test_front import wait_until
from tests.oracle.real_server import RealReplicaSet, missing_mongod
from tests.support.fronted import Fronted

Document = dict[str, Any]
Watching = Callable[["MongoClient[Document]"], Any]
ROOT = {"username": "root", "password": "root"}
SERVICE = ("tailrace", "service")

SCOPES: dict[str, Watching] = {
    "deployment": lambda client: client.watch(),
    "shop": lambda client: client.shop.watch(),
    "shop.orders": lambda client: client.shop.orders.watch(),
    "shop.orders with images": lambda client: client.shop.orders.watch(
        full_document="updateLookup", full_document_before_change="whenAvailable"
    ),
    "shop.system.views": lambda client: client.shop["system.views"].watch(),
    "other": lambda client: client.other.watch(),
    "other.orders": lambda client: client.other.orders.watch(),
    "other.items": lambda client: client.other.items.watch(),
    "local": lambda client: client["local"].watch(),
    "config.mine": lambda client: client.config.mine.watch(),
    "admin.orders": lambda client: client.admin.orders.watch(),
}


def on(database: str, collection: str, *actions: str) -> Document:
    return {"resource": {"db": database, "collection": collection}, "actions": list(actions)}


ROLES: dict[str, list[Document]] = {
    "collection": [on("shop", "orders", "find", "changeStream")],
    "database": [on("shop", "", "find", "changeStream")],
    "cluster": [on("", "", "find", "changeStream")],
    "watcher": [on("", "", "find", "changeStream", "listCollections")],
    "findOnly": [on("", "", "find")],
    "streamOnly": [on("", "", "changeStream")],
    "byName": [on("", "orders", "find", "changeStream")],
    "anything": [{"resource": {"anyResource": True}, "actions": ["anyAction"]}],
    "system": [on("shop", "system.views", "find", "changeStream")],
}
USERS: dict[str, list[Any]] = {
    "nobody": [],
    "reader": [{"role": "read", "db": "shop"}],
    "writer": [{"role": "readWrite", "db": "other"}],
    "owner": [{"role": "dbOwner", "db": "shop"}],
    "all": ["readAnyDatabase"],
    "monitor": ["clusterMonitor"],
    "backup": ["backup"],
    "admin": ["root"],
    **{role: [role] for role in ROLES},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealReplicaSet]:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("guarded")
    key = folder / "key"
    key.write_text("shared by the members\n")
    key.chmod(0o400)
    found = RealReplicaSet(folder, "--auth", "--keyFile", str(key))
    try:
        found.start()
        with found.client() as client:
            client.admin.command("createUser", ROOT["username"], pwd=ROOT["password"], roles=["root"])
        with found.client(**ROOT) as client:
            for role, privileges in ROLES.items():
                client.admin.command("createRole", role, privileges=privileges, roles=[])
            for user, roles in USERS.items():
                client.admin.command("createUser", user, pwd=f"of {user}", roles=roles)
            client.admin.command("createUser", SERVICE[0], pwd=SERVICE[1], roles=["root"])
            client.admin.command("createUser", "old", pwd="o", roles=["root"], mechanisms=["SCRAM-SHA-1"])
            client.admin.command("createUser", "new", pwd="n", roles=["root"], mechanisms=["SCRAM-SHA-256"])
            client.shop.command("createUser", "local", pwd="l", roles=["read"])
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def front(guarded: RealReplicaSet) -> Iterator[Fronted]:
    address = guarded.members[0].address
    uri = f"mongodb://{SERVICE[0]}:{SERVICE[1]}@{address}/?replicaSet=rs0"
    with Fronted(uri, auth=True) as found:
        yield found


def outcome(watch: Watching, client: "MongoClient[Document]") -> Any:
    """Whether a stream can be opened, or the code of the error."""
    try:
        watch(client).close()
    except OperationFailure as error:
        return error.code
    return "ok"


@pytest.mark.parametrize("user", USERS)
def test_a_user_may_watch_the_same_on_both(guarded: RealReplicaSet, front: Fronted, user: str) -> None:
    credentials = {"username": user, "password": f"of {user}"}
    with guarded.client(**credentials) as real, front.client(**credentials) as ours:
        for scope, watch in SCOPES.items():
            assert outcome(watch, ours) == outcome(watch, real), scope


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        ({"username": "reader", "password": "wrong"}, 18),
        ({"username": "unknown", "password": "of unknown"}, 18),
        ({"username": "reader", "password": "of reader", "authSource": "shop"}, 18),
        ({"username": "local", "password": "l", "authSource": "shop"}, "ok"),
        ({"username": "old", "password": "o"}, "ok"),
        ({"username": "old", "password": "o", "authMechanism": "SCRAM-SHA-256"}, 18),
        ({"username": "new", "password": "n"}, "ok"),
        ({"username": "new", "password": "n", "authMechanism": "SCRAM-SHA-1"}, 18),
        ({}, 13),
    ],
    ids=lambda value: value.get("username", "-") if isinstance(value, dict) else str(value),
)
def test_log_ins_end_as_on_the_source(
    guarded: RealReplicaSet, front: Fronted, credentials: Document, expected: Any
) -> None:
    with guarded.client(**credentials) as real, front.client(**credentials) as ours:
        assert outcome(SCOPES["shop.orders"], real) == expected
        assert outcome(SCOPES["shop.orders"], ours) == expected


@pytest.mark.parametrize("end", ["revokeRolesFromUser", "dropUser"])
def test_a_stream_ends_when_its_right_is_revoked_or_its_user_removed(
    guarded: RealReplicaSet, front: Fronted, end: str
) -> None:
    with guarded.client(**ROOT) as root:
        root.admin.command("createUser", end, pwd="p", roles=["readAnyDatabase"])
        with (
            front.client(username=end, password="p") as ours,
            ours.shop.orders.watch(max_await_time_ms=100) as stream,
        ):
            root.shop.orders.insert_one({})
            assert next(stream)["operationType"] == "insert"
            roles: Document = {"roles": ["readAnyDatabase"]} if end == "revokeRolesFromUser" else {}
            root.admin.command(end, end, **roles)
            codes: list[int | None] = []

            def is_refused() -> bool:
                try:
                    stream.try_next()
                except OperationFailure as error:
                    codes.append(error.code)
                return bool(codes)

            wait_until(is_refused)
            assert codes == [13]


def test_users_of_tailrace_log_in_beside_them(guarded: RealReplicaSet) -> None:
    uri = f"mongodb://{SERVICE[0]}:{SERVICE[1]}@{guarded.members[0].address}/?replicaSet=rs0"
    with Fronted(uri, auth=True, first_user=("reader", "own")) as both:
        with both.client(username="reader", password="own") as own:
            assert outcome(SCOPES["other"], own) == "ok"
        with both.client(username="reader", password="of reader") as hidden:
            assert outcome(SCOPES["shop"], hidden) == 18
        with both.client(username="all", password="of all") as theirs:
            assert outcome(SCOPES["deployment"], theirs) == "ok"


# -- a source whose oplog may not be read -------------------------------------------------------------------


def uri_of(guarded: RealReplicaSet, user: str) -> str:
    return f"mongodb://{user}:of+{user}@{guarded.members[0].address}/?replicaSet=rs0"


@pytest.mark.parametrize("user", ["all", "watcher", "cluster"])
def test_a_user_without_the_oplog_serves_the_stream_with_a_notice(
    guarded: RealReplicaSet, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Fronted(uri_of(guarded, user)) as fronted,
        fronted.client() as front,
        guarded.client(**ROOT) as root,
        root.shop.orders.watch(full_document="updateLookup") as expected,
        front.shop.orders.watch(full_document="updateLookup") as stream,
    ):
        root.shop.orders.insert_one({"_id": user})
        root.shop.orders.update_one({"_id": user}, {"$set": {"seen": True}})
        root.shop.orders.delete_one({"_id": user})
        assert [next(stream) for _ in range(3)] == [next(expected) for _ in range(3)]
        assert front.admin.command("serverStatus")["source"]["via"] == "stream"
        with pytest.raises(OperationFailure, match="showSystemEvents cannot be served here") as refused:
            front.shop.aggregate([{"$changeStream": {"showSystemEvents": True}}])
        assert refused.value.code == 115
    notices = [line for line in caplog.messages if "instead of its oplog" in line]
    assert len(notices) == 1


def test_the_oplog_is_not_read_in_silence_by_another_way(guarded: RealReplicaSet) -> None:
    with pytest.raises(AccessError, match=r"the user all lacks a right .*: find on local\.oplog\.rs"):
        Fronted(uri_of(guarded, "all"), via=Via.OPLOG).__enter__()


def test_a_user_who_may_watch_one_database_cannot_be_the_user_of_the_source(guarded: RealReplicaSet) -> None:
    for via, right in ((None, r"find on local\.oplog\.rs"), (Via.STREAM, "changeStream and find on all")):
        with pytest.raises(AccessError, match=rf"the user reader lacks a right .*: {right}"):
            Fronted(uri_of(guarded, "reader"), via=via).__enter__()
