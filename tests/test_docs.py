"""The documentation names real files, functions, options and targets, and shows real output."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from bson import DatetimeMS, Int64, Timestamp

from tailrace.bsonio import extjson
from tailrace.bsonio.documents import encode
from tailrace.cli.main import COMMANDS, main
from tailrace.eventlog.local_engine import LocalEngine
from tailrace.model.resume_token import ResumeToken
from tailrace.model.scope import Scope
from tailrace.stages.plan import Plan
from tailrace.testing.deployment import uuid_value
from tailrace.testing.sample import shop_story

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailrace"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
README = (ROOT / "README.md").read_text()
ONE_EVENT = (ROOT / "docs" / "one-event.md").read_text()

CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[\w./]+\.(?:py|md|svg|toml|txt)")
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")

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
def test_links_lead_somewhere(page: Path) -> None:
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
def test_every_step_of_one_event_names_what_its_files_hold(step: list[str]) -> None:
    """A name in a row stands in one of the files of that row; the first file is the one the row is about."""
    files = [name for part in step for name in CODE.findall(part) if FILE.fullmatch(name)]
    folder = Path(files[0]).parent
    sources = [resolve(name) or resolve(str(folder / name)) for name in files]
    text = "\n".join(source.read_text() for source in sources if source is not None)
    names = {name for part in step for name in CODE.findall(part) if name not in files}
    identifiers = {name.rpartition(".")[2] for name in names if IDENTIFIER.fullmatch(name)}
    assert len([source for source in sources if source]) == len(files)
    # Data in the story, not names in the code.
    identifiers -= {"orders", "fullDocument", "ns", "documentKey", "insert", "i", "o", "o2", "struct", "_id"}
    assert not [name for name in identifiers if not re.search(rf"\b{re.escape(name)}\b", text)]


def test_one_event_shows_what_really_comes_out() -> None:
    """The entry of the page, run through the engine; what the page leaves out may be anything."""
    entry = encode(
        {
            "op": "i", "ns": "shop.orders", "ui": uuid_value(bytes(range(16))),
            "o": {"_id": 1, "item": "lamp"}, "o2": {"_id": 1},
            "ts": Timestamp(1700000000, 4), "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(1700000000000),
        }
    )  # fmt: skip
    engine = LocalEngine(Plan.open(Scope.parse_ns("shop.orders"), {}))
    engine.push("", [entry])
    (event,) = engine.drain()
    (shown,) = blocks(ONE_EVENT, "json")
    pattern = re.escape(re.sub(r"\s*\n\s*", " ", shown.strip())).replace("…", ".+")
    assert re.fullmatch(pattern, extjson.dumps_canonical(event)), extjson.dumps_canonical(event)


def test_the_token_taken_apart_is_a_token() -> None:
    page = (ROOT / "docs" / "resume-token.md").read_text()
    block = next(body for body in blocks(page) if body.startswith("82 6553F100"))
    groups = re.compile(r"\s*((?:[0-9A-F]{2})+(?: (?:[0-9A-F]{2})+)*)")
    lines = [found[1] for line in block.splitlines() if (found := groups.match(line))]
    hex_text = "".join(lines)
    token = ResumeToken.parse_data(hex_text.replace(" ", ""), bytes.fromhex("820001"))
    assert token.identifier == encode({"operationType": "insert", "documentKey": {"_id": Int64(1000)}})
    assert token.cluster_time == 1700000000 << 32 | 2


def test_every_command_and_option_is_documented_truly() -> None:
    for name in COMMANDS:
        assert f"tailrace {name}" in README
    for line in re.findall(r"tailrace (\w+)((?:[^\n]|\\\n)*)", "\n".join(code_of(README))):
        command, rest = line
        parser = argparse.ArgumentParser()
        import_module(COMMANDS[command]).add_arguments(parser)
        known = {option for action in parser._actions for option in action.option_strings}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known


def test_the_token_in_the_readme_is_explained_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    block = next(body for body in blocks(README) if body.startswith("$ tailrace token"))
    command, _, shown = block.partition("\n")
    assert main(command.removeprefix("$ tailrace ").split()) == 0
    assert capsys.readouterr().out == shown


def test_the_python_in_the_readme_runs() -> None:
    (code,) = blocks(README, "python")
    seen: list[bytes] = []
    names = {"raw_oplog_entries": shop_story().entries, "seen": seen}
    exec(code.replace("    ...\n", "    seen.append(event)\n"), names)
    assert len(seen) == 3


def test_every_stage_is_on_the_way_of_one_event() -> None:
    helpers = {"__init__", "stage", "lookups", "resume_point", "push_down", "namespace_filter"}
    helpers |= {path.stem for path in (PACKAGE / "stages").glob("transform_*.py")}
    stages = {path.stem for path in (PACKAGE / "stages").glob("*.py")} - helpers
    assert not [stage for stage in stages if f"{stage}.py" not in ONE_EVENT]
