"""The documentation names existing files, functions, options and targets, and shows real output."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from pymongo.database import Database

from tailrace.bson.documents import encode
from tailrace.cli.commands import COMMANDS
from tailrace.cli.main import FAILED, INTERRUPTED, NO_READER, USED_WRONGLY
from tailrace.events.resume_token import ResumeToken
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailrace"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
README = (ROOT / "README.md").read_text()
ONE_EVENT = (ROOT / "docs" / "one-event.md").read_text()
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[\w./]+\.(?:py|md|svg|toml|txt)")
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
OPTIONS_OF_OTHERS = {
    *("--pipe", "--eval", "--archive", "--oplog"),
    *("--archives", "--conf", "--py-files"),
    *("--file", "--filename", "--from-file", "--tag", "--unit"),
}
"""Options of MongoDB's tools, `spark-submit`, Docker, Kubernetes and systemd that the pages name."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def blocks(text: str, language: str = "") -> list[str]:
    return [body for name, body in FENCE.findall(text) if name == language]


def resolve(name: str) -> Path | None:
    """A file as the pages name it: from the root, or from the package's folder."""
    found = [base / name for base in (ROOT, PACKAGE, ROOT / "docs") if (base / name).exists()]
    return found[0] if found else None


@pages
def test_named_files_and_folders_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    named = [name for name in CODE.findall(text) if FILE.fullmatch(name) or re.fullmatch(r"[\w./]+/", name)]
    beside = re.findall(r"`[\w/]+/([a-z_]+\.py)`, `([a-z_]+\.py)`", text)
    short = {second for _, second in beside}  # "`stages/a.py`, `b.py`" names two files of one folder
    assert not [name for name in named if resolve(name) is None and name not in short]


@pages
def test_links_have_targets(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    local = [target for target in targets if not target.startswith("http")]
    assert not [target for target in local if not (page.parent / target).exists()]


@pages
def test_named_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"\bmake ([a-z][a-z-]*)(?=[`\s])", "\n".join(code_of(page.read_text())))
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def code_of(text: str) -> Iterator[str]:
    yield from CODE.findall(FENCE.sub("", text))
    yield from blocks(text)


def steps() -> list[list[str]]:
    rows = re.findall(r"^\| \d+ \| (.*?) \| (.*?) \|$", ONE_EVENT, re.MULTILINE)
    return [list(row) for row in rows]


@pytest.mark.parametrize("step", steps(), ids=lambda step: re.sub(r"\W+", "-", step[0]))
def test_every_step_of_one_event_names_what_its_files_contain(step: list[str]) -> None:
    """A name in a row occurs in one of the files of that row; the first file is its subject."""
    files = [name for part in step for name in CODE.findall(part) if FILE.fullmatch(name)]
    folder = Path(files[0]).parent
    sources = [resolve(name) or resolve(str(folder / name)) for name in files]
    text = "\n".join(source.read_text() for source in sources if source is not None)
    names = {name for part in step for name in CODE.findall(part) if name not in files}
    identifiers = {name.rpartition(".")[2] for name in names if IDENTIFIER.fullmatch(name)}
    assert len([source for source in sources if source]) == len(files)
    # Data of the example, not names in the code.
    identifiers -= {
        "orders",
        "shop",
        "fullDocument",
        "ns",
        "documentKey",
        "insert",
        "i",
        "o",
        "o2",
        "struct",
        "_id",
    }
    assert not [name for name in identifiers if not re.search(rf"\b{re.escape(name)}\b", text)]


def test_the_token_taken_apart_is_a_token() -> None:
    page = (ROOT / "docs" / "resume-token.md").read_text()
    block = next(body for body in blocks(page) if body.startswith("82 6553F100"))
    groups = re.compile(r"\s*((?:[0-9A-F]{2})+(?: (?:[0-9A-F]{2})+)*)")
    lines = [found[1] for line in block.splitlines() if (found := groups.match(line))]
    hex_text = "".join(lines)
    token = ResumeToken.parse_data(hex_text.replace(" ", ""), bytes.fromhex("820001"))
    assert token.identifier == encode({"operationType": "insert", "documentKey": {"_id": Int64(1000)}})
    assert token.cluster_time == 1700000000 << 32 | 2


def actions(command: str) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(COMMANDS[command]).add_arguments(parser)
    return parser._actions


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_with_all_its_options(command: str) -> None:
    assert f"tailrace {command}" in README
    heading, _, section = COMMAND_LINE.partition(f"\n## tailrace {command}\n")
    section = section.partition("\n## ")[0]
    assert section, f"no section after {heading[-30:]!r}"
    named = set(re.findall(r"(?<![\w-])--[a-z-]+|\b[A-Z]{4,}\b", section))
    for action in actions(command):
        names = action.option_strings or [str(action.metavar)]
        assert named.issuperset(names), names
        assert action.help
    assert import_module(COMMANDS[command]).HELP


@pages
def test_named_options_exist(page: Path) -> None:
    known = {"--help", "--version", "--config"}
    for command in COMMANDS:
        known |= {option for action in actions(command) for option in action.option_strings}
    named = [
        name for code in code_of(page.read_text()) for name in re.findall(r"(?<!\S)--[a-z][a-z-]*", code)
    ]
    assert set(named) - OPTIONS_OF_OTHERS <= known


def test_every_exit_code_is_documented() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \| ", COMMAND_LINE, re.MULTILINE)}
    assert documented == {0, FAILED, USED_WRONGLY, INTERRUPTED, NO_READER}


def sessions() -> Iterator[tuple[str, str]]:
    """Blocks that show a terminal, each with its page."""
    for page in PAGES:
        for block in blocks(page.read_text()):
            if block.startswith("$ "):
                yield page.name, block


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state after `make tour`: the sample files and the console script."""
    folder = tmp_path_factory.mktemp("docs")
    script = folder / "bin" / "tailrace"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tailrace "$@"\n')
    script.chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "examples.replay_tour"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


@pytest.mark.parametrize("session", list(sessions()), ids=lambda session: session[0])
def test_a_terminal_session_shows_the_real_output(folder: Path, session: tuple[str, str]) -> None:
    page, block = session
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    # A backslash continues a command in the next line; its output follows up to the next command.
    for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stdout == shown, f"{page}: {command}"


def readme_python(mark: str) -> str:
    (code,) = [block for block in blocks(README, "python") if mark in block]
    return code


def test_the_replay_in_the_readme_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    seen: list[dict[str, Any]] = []
    exec(readme_python("replay(").replace("    ...\n", "    seen.append(event)\n"), {"seen": seen})
    assert len(seen) == 3


def test_the_driver_in_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = readme_python("MongoClient(")
    with ReplicaSet() as replica_set:
        exec(code.replace("mongodb://127.0.0.1:27017/?replicaSet=rs0", replica_set.uri), {})
    assert capsys.readouterr().out == (
        "insert {'_id': 1, 'item': 'lamp'}\nupdate {'_id': 1, 'item': 'lamp', 'paid': True}\n"
    )


def test_the_query_in_the_readme_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ReplicaSet(history=tmp_path / "events", builds_history=True) as replica_set:
        orders = replica_set.client().shop.orders
        orders.insert_many([{"_id": number} for number in range(5)])
        orders.update_one({"_id": 1}, {"$set": {"paid": True}})
        orders.delete_one({"_id": 2})
        replica_set.catch_up()
    monkeypatch.chdir(tmp_path)
    exec(readme_python("scan_delta("), {})
    assert capsys.readouterr().out in blocks(README)


def test_the_query_on_a_mirrored_table_in_the_readme_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = MirrorSettings(str(tmp_path / "lake"), mirrored_namespaces(["shop"]))
    with ReplicaSet() as replica_set, DeploymentSource(replica_set.uri) as source:
        orders = replica_set.client().shop.orders
        states = ["new", "paid", "paid", "sent"]
        orders.insert_many(
            [{"_id": number, "state": states[number % 4], "total": 2.5 * number} for number in range(1000)]
        )
        orders.update_one({"_id": 1}, {"$set": {"state": "sent"}})
        MirrorJob(lambda progress: MirrorEngine(source, settings, progress=progress), None).run()
    monkeypatch.chdir(tmp_path)
    exec(readme_python("read_parquet("), {})
    assert capsys.readouterr().out.strip() in [block.strip() for block in blocks(README)]


def test_the_test_in_the_readme_passes(tailrace_database: Database[dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    exec(readme_python("def test_"), names)
    names["test_orders_are_announced"](tailrace_database)


def test_every_stage_is_on_the_way_of_one_event() -> None:
    helpers = {"__init__", "stage", "lookups", "resume_point", "push_down", "namespace_filter", "visibility"}
    stages = {path.stem for path in (PACKAGE / "events" / "stages").glob("*.py")} - helpers
    assert not [stage for stage in stages if f"{stage}.py" not in ONE_EVENT]


def test_the_picture_of_the_datas_way_is_the_one_its_script_draws() -> None:
    drawn = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "draw_data_way.py"), "-"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert drawn.stdout == (ROOT / "docs" / "images" / "data-way.svg").read_text()


def test_every_package_has_its_place_in_the_architecture() -> None:
    levels = "\n".join(re.findall(r"^\| \d \| .*", ARCHITECTURE, re.MULTILINE))
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert not [package for package in packages if f"`{package}`" not in levels]
