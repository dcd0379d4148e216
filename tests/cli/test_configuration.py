"""Options from a file and from the environment: which value wins, and what is refused."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tailrace.cli.commands import COMMANDS, parser_of
from tests.cli.console import Here

TOKEN = "8263515EAC000000022B0429296E1404"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tailrace.toml"


@pytest.mark.parametrize(
    ("in_file", "variable", "flag", "is_json"),
    [
        (None, None, False, False),
        (True, None, False, True),
        (True, "false", False, False),
        (False, "yes", False, True),
        (False, "off", True, True),
        (None, None, True, True),
    ],
)
def test_flags_win_over_variables_which_win_over_the_file(
    here: Here,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_file: bool | None,
    variable: str | None,
    flag: bool,
    is_json: bool,
) -> None:
    file.write_text("" if in_file is None else f"[token]\njson = {json.dumps(in_file)}\n")
    if variable is not None:
        monkeypatch.setenv("TAILRACE_JSON", variable)
    outcome = here("token", TOKEN, "--config", file, *(["--json"] if flag else []))
    assert outcome.code == 0
    assert outcome.lines[0].startswith("{") == is_json


def test_the_file_can_be_named_by_a_variable(here: Here, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[token]\njson = true\n[serve]\nport = 1\n")
    monkeypatch.setenv("TAILRACE_CONFIG", str(file))
    assert here("token", TOKEN).lines[0].startswith("{")


def test_a_variable_with_the_name_of_the_command_wins(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_JSON", "no")
    monkeypatch.setenv("TAILRACE_TOKEN_JSON", "1")
    assert here("token", TOKEN).lines[0].startswith("{")


@pytest.mark.parametrize("form", ['["nonsense=true"]', "{nonsense = true}", '"nonsense=true"'])
def test_a_repeated_option_replaces_that_of_the_file(here: Here, file: Path, form: str) -> None:
    file.write_text(f"[replay]\nparameter = {form}\nexplain = true\n")
    assert "there is no parameter nonsense" in here("replay", "--config", file).sentence
    flag = "--parameter=changeStreamsEmitFromMigrate=true"
    assert here("replay", "--config", file, flag).code == 0


def test_a_variable_has_several_values(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_PARAMETER", "changeStreamsEmitFromMigrate=true; nonsense=true")
    assert "there is no parameter nonsense" in here("replay", "--explain").sentence


def test_a_required_option_may_be_in_the_file(here: Here, file: Path) -> None:
    assert "required: --history" in here("pipeline").sentence
    file.write_text('[pipeline]\nhistory = "events"\n')
    assert "give the source" in here("pipeline", "--config", file).sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[replay]\nengin = 'spark'", "tailrace replay has no option engin; did you mean engine?"),
        ("[replay]\nraw_data = true", "did you mean raw-data?"),
        ("[replay]\nzzz = true", "tailrace replay has no option zzz"),
        ("[reply]\nns = 'a'", "there is no command for [reply]; did you mean replay?"),
        ("ns = 'a'", "ns is outside of a table; write it below [replay]"),
        ("[replay]\nengine = 'abacus'", "engine of [replay] is one of spark, local, not abacus"),
        ("[replay]\nexplain = 'always'", "explain of [replay] is true or false, not always"),
        ("[replay]\nns = [1]", "ns of [replay] takes text or a number"),
        ("[replay\n", "is no TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(here: Here, file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    outcome = here("replay", "--explain", "--config", file)
    assert outcome.code == 2
    assert sentence in outcome.sentence
    assert str(file) in outcome.sentence


def test_a_file_that_is_not_there_is_one_sentence(here: Here, file: Path) -> None:
    assert f"the configuration {file} cannot be read" in here("token", TOKEN, "--config", file).sentence


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("TAILRACE_KEEP_AGE", "often", "the variable TAILRACE_KEEP_AGE: often is not a time"),
        ("TAILRACE_MAX_ENTRIES", "many", "the variable TAILRACE_MAX_ENTRIES is a whole number, not many"),
        ("TAILRACE_KEEP_AGES", "9d", "the variable TAILRACE_KEEP_AGES; did you mean TAILRACE_KEEP_AGE?"),
        ("TAILRACE_PIPELINE_KEPT_AGE", "9d", "did you mean TAILRACE_PIPELINE_KEEP_AGE?"),
    ],
)
def test_a_wrong_variable_is_one_sentence(
    here: Here, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)
    outcome = here("pipeline", "--history", "events", "--source", "mongodb://127.0.0.1:1/")
    assert outcome.code == 2
    assert sentence in outcome.sentence


def test_variables_of_others_are_ignored(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAILRACE_SERVICE_HOST", "TAILRACE_SEED", "TAILRACE_SHARDS"):
        monkeypatch.setenv(name, "tcp://10.0.0.1:27017")
    assert here("replay", "--explain").code == 0


def test_a_password_in_the_file_is_refused(here: Here, file: Path) -> None:
    file.write_text('[pipeline]\nhistory = "events"\nsource = "mongodb://app:secret@127.0.0.1:1/"\n')
    outcome = here("pipeline", "--config", file)
    assert "use password-file or source-file" in outcome.sentence
    assert "secret" not in outcome.sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_has_every_option_of_a_command(here: Here, command: str) -> None:
    text = here("config", command).output.decode()
    found = tomllib.loads(re.sub(r"^#(?=[a-z])", "", text, flags=re.MULTILINE))
    assert list(found.get(command, {})) == list(parser_of(command).options)
    assert tomllib.loads(text) in ({command: {}}, {})


def test_the_example_has_every_command(here: Here) -> None:
    found = tomllib.loads(here("config").output.decode())
    assert set(COMMANDS) - found.keys() == {"config"}
    assert "there is no command pipelin" in here("config", "pipelin").sentence
