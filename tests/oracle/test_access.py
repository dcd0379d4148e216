"""Access control, compared with a real server: same users, same commands, same outcome and code."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.raw_login import log_in
from tests.mongod.server.running import RunningServer, running
from tests.oracle.access.samples import ROLES_OF_ADMIN, ROLES_OF_DATABASE, SAMPLES, Document, Sample
from tests.oracle.real_server import RealReplicaSet, missing_mongod
from tests.oracle.seeds import some
from tests.oracle.twins import RELEASE

ROOT = ("root", "root")
SECONDS = 60
MOST_SAMPLES: Final = 90
STRICTER = {"configureFailPoint"}
"""Commands that need more rights here: a real server has fail points for tests only, and asks for none."""


class GuardedSide:
    """One of the two servers; connections of its administrator and of users."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.root = self.connect(*ROOT)

    def connect(self, user: str, password: str) -> RawClient:
        raw = RawClient(socket.create_connection(self.address, timeout=SECONDS))
        reply = log_in(raw, user, password)
        assert reply["ok"], reply
        return raw

    def prepare(self) -> None:
        """Bring the databases into the state that the samples expect."""
        call = self.root.call
        for database in ("shop", "other"):
            call({"dropDatabase": 1, "$db": database})
            call({"dropAllUsersFromDatabase": 1, "$db": database})
            call({"dropAllRolesFromDatabase": 1, "$db": database})
            for name in ("orders", "items"):
                documents = [{"_id": number, "a": number} for number in range(3)]
                assert call({"insert": name, "documents": documents, "$db": database})["ok"]
            assert call({"create": "view", "viewOn": "orders", "pipeline": [], "$db": database})["ok"]
        for database, name in (("local", "fresh"), ("local", "mine"), ("config", "mine")):
            call({"drop": name, "$db": database})
        for role in ("made4", "made5"):
            call({"dropRole": role, "$db": "admin"})

    def as_user(self, name: str, roles: list[Document]) -> RawClient:
        self.root.call({"dropUser": name, "$db": "admin"})
        reply = self.root.call({"createUser": name, "pwd": "p", "roles": roles, "$db": "admin"})
        assert reply["ok"], reply
        return self.connect(name, "p")


@pytest.fixture(scope="module")
def guarded_twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuardedSide, GuardedSide]]:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("guarded")
    key = folder / "key"
    key.write_text("shared by the members\n")
    key.chmod(0o400)
    replica_set = RealReplicaSet(folder, "--auth", "--keyFile", str(key))
    try:
        replica_set.start()
        with replica_set.client() as client:
            client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
        with running(auth=True, first_user=ROOT, server_version=RELEASE) as ours:
            twins = GuardedSide(("127.0.0.1", replica_set.members[0].port)), GuardedSide(ours.address)
            yield twins
            for side in twins:
                side.root.socket.close()
            assert no_faults(ours)
    finally:
        replica_set.stop()


def no_faults(server: RunningServer) -> bool:
    return not [line for line in server.log() if line["s"] == "E"]


def outcome(reply: Document) -> Any:
    """Whether a command succeeded, or the code of its error or of its first statement's."""
    if not reply["ok"]:
        return reply.get("code", "no code")
    errors = reply.get("writeErrors")
    return errors[0]["code"] if errors else "ok"


def differences(twins: tuple[GuardedSide, GuardedSide], name: str, roles: list[Document]) -> list[str]:
    """The samples that end differently for a user with these roles."""
    for side in twins:
        side.prepare()
    real, ours = (side.as_user(name, roles) for side in twins)
    found = []
    with closing(real.socket), closing(ours.socket):
        for sample in some(SAMPLES, MOST_SAMPLES):
            database, command = sample
            replies = [raw.call({**command, "$db": database}) for raw in (real, ours)]
            outcomes = [outcome(reply) for reply in replies]
            if outcomes[0] != outcomes[1] and not _is_stricter(sample, outcomes):
                found.append(f"{database} {command}: {outcomes[0]} and {outcomes[1]}: {replies[1]}"[:600])
    return found


def _is_stricter(sample: Sample, outcomes: list[Any]) -> bool:
    return next(iter(sample[1])) in STRICTER and outcomes[1] == 13


@pytest.mark.parametrize("role", ROLES_OF_DATABASE)
def test_users_with_one_role_of_a_database(guarded_twins: tuple[GuardedSide, GuardedSide], role: str) -> None:
    assert not differences(guarded_twins, f"shop_{role}", [{"role": role, "db": "shop"}])


@pytest.mark.parametrize("role", ROLES_OF_ADMIN)
def test_users_with_one_role_of_admin(guarded_twins: tuple[GuardedSide, GuardedSide], role: str) -> None:
    assert not differences(guarded_twins, f"admin_{role}", [{"role": role, "db": "admin"}])


def test_a_user_without_roles(guarded_twins: tuple[GuardedSide, GuardedSide]) -> None:
    assert not differences(guarded_twins, "nothing", [])


@pytest.mark.parametrize("actions", [["find"], ["changeStream"], ["find", "changeStream"]])
@pytest.mark.parametrize("resource", [("shop", "orders"), ("shop", ""), ("", "")])
def test_users_with_single_rights_to_streams(
    guarded_twins: tuple[GuardedSide, GuardedSide], actions: list[str], resource: tuple[str, str]
) -> None:
    name = "stream_" + "_".join((*actions, *resource))
    place = {"db": resource[0], "collection": resource[1]}
    for side in guarded_twins:
        side.root.call({"dropRole": name, "$db": "admin"})
        privileges = [{"resource": place, "actions": actions}]
        reply = side.root.call({"createRole": name, "privileges": privileges, "roles": [], "$db": "admin"})
        assert reply["ok"], reply
    assert not differences(guarded_twins, name, [{"role": name, "db": "admin"}])


def test_before_a_log_in(guarded_twins: tuple[GuardedSide, GuardedSide]) -> None:
    found = []
    for database, command in SAMPLES:
        replies = []
        for side in guarded_twins:
            with closing(socket.create_connection(side.address, timeout=SECONDS)) as endpoint:
                replies.append(RawClient(endpoint).call({**command, "$db": database}))
        outcomes = [outcome(reply) for reply in replies]
        if outcomes[0] != outcomes[1] and not _is_stricter((database, command), outcomes):
            found.append(f"{database} {command}: {replies}"[:600])
    assert not found
