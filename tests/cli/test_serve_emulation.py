"""`tailrace serve` as an older release, and with several members."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.cli.console import Here
from tests.mongod.server.served import served


def test_members_of_an_older_release(tmp_path: Path) -> None:
    with served(tmp_path, "--members", "3", "--server-version", "4.4.6") as process:
        with closing(MongoClient[dict[str, Any]](process.uri, serverSelectionTimeoutMS=10_000)) as client:
            client.shop.orders.insert_one({"_id": 1})
            assert client.server_info()["version"] == "4.4.6"
            status = client.admin.command("replSetGetStatus")
        assert process.uri.count(",") == 2
        assert [member["stateStr"] for member in status["members"]] == ["PRIMARY", "SECONDARY", "SECONDARY"]
        assert process.stop() == 0
        assert process.faults() == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--server-version", "3.6"], "3.6 is not a server version that can be presented"),
        (["--members", "0"], "a set has 1 to 50 members, not 0"),
        (["--members", "2", "--standalone"], "a standalone server has one member"),
        (["--members", "2", "--advertise", "a:1"], "name 2 of them"),
        (["--members", "2", "--advertise", "a:1,b"], "--advertise takes HOST:PORT, not b"),
    ],
)
def test_what_cannot_be_served(here: Here, options: list[str], reason: str) -> None:
    outcome = here("serve", "--no-spark", "--port", "0", *options)
    assert outcome.code == 2
    assert reason in outcome.sentence
