"""`tailrace serve --auth`: the first user comes from a file, and nothing shows its password."""

import os
from pathlib import Path

import pytest
from pymongo.errors import OperationFailure

from tests.cli.console import Here
from tests.mongod.server.served import served


def test_the_first_user_from_options(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("a secret word\n")
    options = ("--auth", "--auth-user", "admin", "--auth-password-file", str(password))
    with served(tmp_path, *options) as process:
        with process.client() as nobody, pytest.raises(OperationFailure) as failure:
            nobody.shop.orders.find_one()
        assert failure.value.code == 13
        with process.client(username="admin", password="a secret word") as client:
            client.shop.orders.insert_one({})
            shown = client.admin.command("getCmdLineOpts")
        assert "a secret word" not in str(shown)
        process.stop()
        password.write_text("another word\n")
        process.start()
        # Users exist already, so the options change nothing.
        with process.client(username="admin", password="a secret word") as client:
            assert client.shop.orders.count_documents({}) == 1
    assert "a secret word" not in (tmp_path / "log").read_text()


def test_the_first_user_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = tmp_path / "password"
    password.write_text("a secret word")
    monkeypatch.setitem(os.environ, "TAILRACE_AUTH_USER", "admin")
    monkeypatch.setitem(os.environ, "TAILRACE_AUTH_PASSWORD_FILE", str(password))
    with (
        served(tmp_path, "--auth") as process,
        process.client(username="admin", password="a secret word") as client,
    ):
        client.shop.orders.insert_one({})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--auth-user", "a"], "needs both --auth-user NAME and --auth-password-file FILE"),
        (["--auth-user", "a", "--auth-password-file", "no such file"], "cannot be read from no such file"),
    ],
)
def test_a_first_user_that_is_not_complete(here: Here, options: list[str], sentence: str) -> None:
    outcome = here("serve", "--auth", "--no-spark", "--port", "0", *options)
    assert outcome.code == 2
    assert sentence in outcome.sentence
