"""The console script: its table of commands, its sentences and its exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

import tailrace as package
from tailrace.cli import main as console_main
from tailrace.cli.commands import COMMANDS
from tests.cli.console import Here, tailrace


def test_help_names_every_command(here: Here) -> None:
    outcome = here("--help")
    assert outcome.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in outcome.output.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(here: Here, name: str) -> None:
    outcome = here(name, "--help")
    assert outcome.code == 0
    assert outcome.output.decode().startswith(f"usage: tailrace {name}")
    assert outcome.error == ""


def test_a_process_without_standard_error_keeps_its_exit_code() -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "tailrace", "nonsense"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")


def test_version() -> None:
    outcome = tailrace("--version")
    assert (outcome.code, outcome.lines) == (0, [f"tailrace {package.__version__}"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no command"),
        (["nonsense"], "nonsense"),
        (["--nonsense"], "--nonsense"),
        (["replay", "--nonsense"], "--nonsense"),
        (["replay", "--pipe", "[]"], "--pipe"),
        (["replay", "--engine", "abacus", "x"], "abacus"),
        (["replay", "--options"], "--options"),
        (["token", "--json=--"], "--json has no value"),
    ],
)
def test_wrong_use_is_one_sentence(here: Here, arguments: list[str], words: str) -> None:
    outcome = here(*arguments)
    assert outcome.code == 2
    assert words in outcome.sentence
    assert outcome.output == b""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["stauts"], "there is no command stauts; did you mean status?"),
        (
            ["pipeline", "--histroy", "x"],
            "tailrace pipeline has no option --histroy; did you mean --history?",
        ),
        (["token", "--sorce=x"], "tailrace token has no option --sorce; did you mean --source?"),
        (["watch", "--max_await_time_ms", "5"], "did you mean --max-await-time-ms?"),
        (["serve", "--zzz"], "tailrace serve has no option --zzz; see `tailrace serve --help`"),
    ],
)
def test_a_slip_of_the_hand_has_a_suggestion(here: Here, arguments: list[str], sentence: str) -> None:
    outcome = here(*arguments)
    assert outcome.code == 2
    assert sentence in outcome.sentence


def test_small_commands_do_not_load_the_pipeline() -> None:
    code = (
        "import sys; from tailrace.cli.main import main; main(['token', '--nonsense']); "
        "print('tailrace.events.stages.plan' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("statement", "code", "sentence"),
    [
        ("raise KeyboardInterrupt", 130, ""),
        (
            "raise OSError(28, 'No space left on device', '/out')",
            1,
            "cannot read or write /out: No space left",
        ),
        (
            "raise ZeroDivisionError('a\\nb')",
            1,
            "internal error, please report it: ZeroDivisionError: a b (at faulty_command.py:",
        ),
    ],
)
def test_an_unexpected_error_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    statement: str,
    code: int,
    sentence: str,
) -> None:
    """A command with a bug, in the table like any other."""
    command = f"HELP = 'x'\ndef add_arguments(parser): pass\ndef run(arguments): {statement}\n"
    (tmp_path / "faulty_command.py").write_text(command)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faulty_command", raising=False)
    monkeypatch.setitem(COMMANDS, "faulty", "faulty_command")
    assert console_main.main(["faulty"]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == (1 if sentence else 0)
