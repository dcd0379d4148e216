"""The errors after which a driver resumes: the drivers' own tests depend on their labels."""

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, one
from tests.mongod.server.running import RunningServer, connected

RESUMABLE = "ResumableChangeStreamError"


def fail(client: MongoClient[Document], name: str, **data: object) -> None:
    client.admin.command({"configureFailPoint": name, "mode": {"times": 1}, "data": data})


def test_an_error_before_the_cursor_is_known_has_no_label(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    fail(client, "failCommand", failCommands=["getMore"], errorCode=6)
    with database.c.watch() as stream:
        database.c.insert_one({"_id": 1})
        with pytest.raises(OperationFailure) as caught:
            one(stream)
    assert caught.value.code == 6
    assert not caught.value.has_error_label(RESUMABLE)


def test_a_driver_uses_the_configured_labels(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    fail(client, "failCommand", failCommands=["getMore"], errorCode=50, errorLabels=[RESUMABLE])
    with database.c.watch() as stream:
        database.c.insert_one({"_id": 1})
        assert one(stream)["documentKey"] == {"_id": 1}


@pytest.mark.parametrize(
    "code", [6, 7, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13435, 13436]
)
def test_a_driver_resumes_after_an_error_of_the_cursor(
    shared_server: RunningServer, database: Database[Document], code: int
) -> None:
    # Errors of a shutdown have no topology version, and the driver waits for its monitor.
    with connected(shared_server, heartbeatFrequencyMS=500) as client:
        fail(client, "failGetMoreAfterCursorCheckout", errorCode=code)
        with client[database.name].c.watch() as stream:
            database.c.insert_one({"_id": 1})
            assert one(stream)["documentKey"] == {"_id": 1}
