"""`tailrace replay` as users call it: all kinds of input give the same events; a fault is one sentence."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson import documents
from tailrace.events.resume_token import ResumeToken
from tests.cli.console import Here, Outcome, tailrace
from tests.cli.replay_inputs import EXPANDED, ids, lines_of, transaction, write
from tests.sources.archive_samples import UUID, entry
from tests.support.history import History, dump
from tests.support.workload import generate


@pytest.fixture(scope="module")
def history() -> History:
    return generate(11, operations=60)


@pytest.fixture(scope="module")
def oplog(history: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oplog") / "oplog.bson"
    path.write_bytes(dump(history.entries))
    return path


@pytest.fixture(scope="module")
def expected(oplog: Path) -> Outcome:
    outcome = tailrace("replay", oplog, "--options", EXPANDED)
    assert outcome.code == 0, outcome.error
    assert outcome.error == ""
    assert len(outcome.lines) > 50
    return outcome


# Output


def test_events_are_canonical_json_in_the_servers_field_order(tmp_path: Path) -> None:
    outcome = tailrace("replay", write(tmp_path / "oplog.bson", entry(1, o={"_id": 1})))
    assert outcome.code == 0
    (line,) = outcome.lines
    token = ResumeToken.parse_data(json.loads(line)["_id"]["_data"])
    assert token.cluster_time == 100 << 32 | 1
    assert line == (
        f'{{"_id": {{"_data": "{token.data}"}}, "operationType": "insert", '
        '"clusterTime": {"$timestamp": {"t": 100, "i": 1}}, "wallTime": {"$date": {"$numberLong": "1001"}}, '
        '"fullDocument": {"_id": {"$numberInt": "1"}}, "ns": {"db": "shop", "coll": "orders"}, '
        '"documentKey": {"_id": {"$numberInt": "1"}}}'
    )


def test_output_to_a_file(oplog: Path, expected: Outcome, tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    outcome = tailrace("replay", oplog, "--options", EXPANDED, "--out", out)
    assert (outcome.code, outcome.output, outcome.error) == (0, b"", "")
    assert out.read_bytes() == expected.output


@pytest.mark.parametrize("more", [[], ["--explain"], ["--pre-images", "INPUT"], ["--documents", "a.b=INPUT"]])
def test_an_input_is_never_overwritten(here: Here, tmp_path: Path, more: list[str]) -> None:
    path = write(tmp_path / "input.bson", entry(1))
    arguments = [text.replace("INPUT", str(path)) for text in more]
    oplog = tmp_path if more in ([], ["--explain"]) else write(tmp_path / "oplog.bson", entry(1))
    outcome = here("replay", oplog, *arguments, "--out", path)
    assert outcome.code == 2
    assert "overwrite" in outcome.sentence
    assert path.read_bytes() == entry(1)


def test_an_output_that_cannot_be_opened(here: Here, tmp_path: Path) -> None:
    path = write(tmp_path / "oplog.bson", entry(1))
    outcome = here("replay", path, "--out", tmp_path / "missing" / "events.json")
    assert outcome.code == 2
    assert "cannot be written" in outcome.sentence


def test_a_reader_that_closes_the_output_is_no_error(oplog: Path) -> None:
    command = [sys.executable, "-m", "tailrace", "replay", str(oplog)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interrupt_is_no_error(tmp_path: Path) -> None:
    pipe = tmp_path / "oplog.bson"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tailrace", "replay", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with open(pipe, "wb"):  # returns when the other side reads; writes nothing
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["OPLOG"], ["OPLOG", "--out", "/dev/full"]])
def test_a_full_disk_is_one_sentence(oplog: Path, arguments: list[str]) -> None:
    words = [text.replace("OPLOG", str(oplog)) for text in arguments]
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "tailrace", "replay", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    outcome = Outcome(done.returncode, b"", done.stderr.decode())
    assert outcome.code == 1
    assert "No space left" in outcome.sentence
    assert ("/dev/full" if "--out" in words else "standard output") in outcome.sentence


def test_a_closed_output_is_one_sentence(oplog: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "tailrace", "replay", str(oplog)]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False, timeout=60)
    outcome = Outcome(done.returncode, b"", done.stderr.decode())
    assert outcome.code == 2
    assert "standard output is closed" in outcome.sentence


# Input


def test_standard_input_is_an_input(tmp_path: Path) -> None:
    content = gzip.compress(entry(1)) + gzip.compress(entry(2))
    command = [sys.executable, "-m", "tailrace", "replay", "-"]
    done = subprocess.run(command, input=content, capture_output=True, check=True, timeout=60)
    assert len(done.stdout.splitlines()) == 2


def test_every_format_gives_the_same_events(
    here: Here, history: History, expected: Outcome, tmp_path: Path
) -> None:
    entries = history.entries
    third = len(entries) // 3
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "c.bson").write_bytes(dump(entries[:third]))
    (folder / "b.json.gz").write_bytes(gzip.compress(lines_of(entries[third : 2 * third])))
    (folder / "a.bson.gz").write_bytes(gzip.compress(dump(entries[2 * third :])))
    (folder / "oplog.metadata.json").write_text("{}")
    inputs = {
        "oplog.bson.gz": gzip.compress(dump(entries)),
        "oplog.json": lines_of(entries),
        "oplog.jsonl.gz": gzip.compress(lines_of(entries)),
        "oplog": dump(entries),
    }
    for name, content in inputs.items():
        (tmp_path / name).write_bytes(content)
    sequence = [folder / name for name in ("c.bson", "b.json.gz", "a.bson.gz")]
    for paths in ([folder], sequence, *([tmp_path / name] for name in inputs)):
        outcome = here("replay", *paths, "--options", EXPANDED)
        assert outcome.error == "", paths
        assert outcome.output == expected.output, paths


def test_three_shards_merged_give_the_events_of_the_unsplit_oplog(
    history: History, expected: Outcome, tmp_path: Path
) -> None:
    arguments: list[str] = []
    for number, log in enumerate(history.split(3, seed=5)):
        # one shard in two files
        for part, piece in enumerate((log[:20], log[20:])):
            path = write(tmp_path / f"{number}.{part}.bson", *piece)
            arguments += ["--shard", f"shard{number}={path}"]
    outcome = tailrace("replay", *arguments, "--options", EXPANDED)
    assert outcome.error == ""
    assert outcome.output == expected.output


def test_pre_images_come_from_a_dump(here: Here, history: History, oplog: Path, tmp_path: Path) -> None:
    plain, packed = tmp_path / "system.preimages.bson", tmp_path / "images.json.gz"
    plain.write_bytes(dump(history.pre_image_documents()))
    packed.write_bytes(gzip.compress(lines_of(history.pre_image_documents())))
    options = '{"fullDocumentBeforeChange": "whenAvailable", "fullDocument": "whenAvailable"}'
    without, first, second = (
        here("replay", oplog, "--options", options, *more)
        for more in ([], ["--pre-images", str(plain)], ["--pre-images", str(packed)])
    )
    assert [outcome.code for outcome in (without, first, second)] == [0, 0, 0]
    assert first.output == second.output
    shown = [json.loads(line).get("fullDocumentBeforeChange") for line in first.lines]
    assert any(shown)
    assert not any(json.loads(line).get("fullDocumentBeforeChange") for line in without.lines)


def test_a_pre_image_belongs_to_its_shard(here: Here, tmp_path: Path) -> None:
    arguments: list[str] = []
    for shard in ("a", "b"):
        # Both shards have an entry at the same time on the same collection.
        deletion = documents.decode(entry(1, op="d", o={"_id": shard}))
        del deletion["o2"]
        write(tmp_path / f"{shard}.bson", documents.encode(deletion))
        identifier = {"nsUUID": UUID, "ts": Timestamp(100, 1), "applyOpsIndex": Int64(0)}
        image = documents.encode({"_id": identifier, "preImage": {"of": shard}})
        write(tmp_path / f"{shard}.images.bson", image)
        arguments += ["--shard", f"{shard}={tmp_path / shard}.bson"]
        arguments += ["--pre-images", f"{shard}={tmp_path / shard}.images.bson"]
    outcome = here("replay", *arguments, "--options", '{"fullDocumentBeforeChange": "required"}')
    assert outcome.error == ""
    events = [json.loads(line) for line in outcome.lines]
    assert [event["documentKey"]["_id"] for event in events] == ["a", "b"]
    assert [event["fullDocumentBeforeChange"]["of"] for event in events] == ["a", "b"]


def test_current_documents_come_from_dumps(here: Here, tmp_path: Path) -> None:
    update: dict[str, Any] = {"op": "u", "o": {"$v": 2, "diff": {"u": {"x": 1}}}}
    oplog = write(tmp_path / "oplog.bson", *(entry(n, **update, o2={"_id": n}) for n in (1, 2)))
    dumped = write(tmp_path / "orders.bson", documents.encode({"_id": 2, "now": "here"}))
    arguments = ["--options", '{"fullDocument": "updateLookup"}', "--documents", f"shop.orders={dumped}"]
    outcome = here("replay", oplog, *arguments)
    assert outcome.error == ""
    events = [json.loads(line) for line in outcome.lines]
    assert [event["fullDocument"] for event in events] == [None, {"_id": {"$numberInt": "2"}, "now": "here"}]


# Options


def test_scope_pipeline_and_start(here: Here, tmp_path: Path) -> None:
    other: dict[str, Any] = {"ns": "shop.other"}
    oplog = write(
        tmp_path / "oplog.bson", entry(1), entry(2, **other), entry(3), entry(4, ns="b.orders"), entry(5)
    )
    assert ids(here("replay", oplog)) == [1, 2, 3, 4, 5]
    assert ids(here("replay", oplog, "--ns", "shop")) == [1, 2, 3, 5]
    assert ids(here("replay", oplog, "--ns", "shop.orders")) == [1, 3, 5]
    match = '[{"$match": {"documentKey._id": {"$gte": 3}}}, {"$project": {"documentKey": 1}}]'
    outcome = here("replay", oplog, "--pipeline", match)
    assert ids(outcome) == [3, 4, 5]
    assert list(json.loads(outcome.lines[0])) == ["_id", "documentKey"]
    resume = json.dumps({"resumeAfter": json.loads(outcome.lines[0])["_id"]})
    assert ids(here("replay", oplog, "--options", resume)) == [4, 5]
    at = '{"startAtOperationTime": {"$timestamp": {"t": 100, "i": 4}}}'
    assert ids(here("replay", oplog, "--options", at)) == [4, 5]


def test_variables_and_collation(here: Here, tmp_path: Path) -> None:
    oplog = write(tmp_path / "oplog.bson", entry(1), entry(2))
    pipeline = '[{"$match": {"$expr": {"$eq": ["$documentKey._id", "$$wanted"]}}}]'
    assert ids(here("replay", oplog, "--pipeline", pipeline, "--let", '{"wanted": 2}')) == [2]
    match = '[{"$match": {"operationType": "INSERT"}}]'
    strength = '{"locale": "en", "strength": 2}'
    assert ids(here("replay", oplog, "--pipeline", match, "--collation", strength)) == [1, 2]
    assert ids(here("replay", oplog, "--pipeline", match)) == []


def test_a_server_parameter(here: Here, tmp_path: Path) -> None:
    oplog = write(tmp_path / "oplog.bson", transaction(1, [1]))
    flag = "featureFlagEndOfTransactionChangeEvent"
    for value, types in (("true", ["insert", "endOfTransaction"]), ("false", ["insert"])):
        outcome = here("replay", oplog, "--options", EXPANDED, "--parameter", f"{flag}={value}")
        assert outcome.error == ""
        assert [json.loads(line)["operationType"] for line in outcome.lines] == types


def test_transactions_may_span_batches_and_files(here: Here, tmp_path: Path) -> None:
    first = write(tmp_path / "1.bson", transaction(1, [1], partialTxn=True), entry(2))
    rest = transaction(3, [3], previous=1, partialTxn=True), transaction(4, [4], previous=3, count=Int64(3))
    second = write(tmp_path / "2.bson", *rest)
    assert ids(here("replay", first, second)) == [2, 1, 3, 4]
    outcome = here("replay", second)
    assert outcome.code == 1
    assert "286 ChangeStreamHistoryLost" in outcome.sentence


def test_explain_needs_no_oplog(here: Here) -> None:
    outcome = here("replay", "--explain", "--ns", "shop.orders", "--pipeline", '[{"$match": {"a": 1}}]')
    assert outcome.code == 0
    (line,) = outcome.lines
    assert "$_internalChangeStreamOplogMatch" in line
    assert '{"$match": {"a": {"$numberInt": "1"}}}' in line


def test_an_invalidated_stream_is_a_success(tmp_path: Path) -> None:
    drop = entry(2, op="c", ns="shop.$cmd", o={"drop": "orders"})
    oplog = write(tmp_path / "oplog.bson", entry(1), drop, entry(3), b"damage nobody gets to")
    outcome = tailrace("replay", oplog, "--ns", "shop.orders")
    assert (outcome.code, outcome.error) == (0, "")
    assert [json.loads(line)["operationType"] for line in outcome.lines] == ["insert", "drop", "invalidate"]


# Faults of the command line

_NESTED = '{"a": ' * 20_000 + "1" + "}" * 20_000
"""Too deep for every version of Python."""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no oplog"),
        (["OPLOG", "--shard", "a=OPLOG"], "exclude"),
        (["missing.bson"], "missing.bson"),
        (["--shard", "OPLOG"], "NAME=PATH"),
        (["OPLOG", "--options", "{"], "--options"),
        (["OPLOG", "--options", "[]"], "--options"),
        (["OPLOG", "--pipeline", "nonsense"], "--pipeline"),
        (["OPLOG", "--pipeline", "{}"], "--pipeline"),
        (["OPLOG", "--pipeline", "[1]"], "--pipeline"),
        (["OPLOG", "--let", "[1]"], "--let"),
        (["OPLOG", "--collation", "x\ny"], "--collation"),
        (["OPLOG", "--parameter", "flag"], "--parameter"),
        (["OPLOG", "--parameter", "flag=true"], "there are featureFlagEndOfTransactionChangeEvent and"),
        (["OPLOG", "--parameter", "changeStreamsEmitFromMigrate=1"], "true or false"),
        (["OPLOG", "--options=--"], "--options has no value"),
        (["OPLOG", "--pipeline", f'[{{"$set": {{"x": {_NESTED}}}}}]'], "nested too deeply"),
        (["OPLOG", "--let", _NESTED], "nested too deeply"),
        (["OPLOG", "--ns", "\udcff"], "--ns is not UTF-8"),
        (["OPLOG", "--options", '{"\udcff": 1}'], "--options is not UTF-8"),
        (["OPLOG", ""], "empty"),
        (["x" * 5000], "cannot be read: File name too long"),
        (["OPLOG", "--documents", "orders.bson"], "--documents"),
        (["OPLOG", "--documents", "shop.orders=missing.bson"], "missing.bson"),
        (["OPLOG", "--pre-images", "missing.bson"], "missing.bson"),
        (["OPLOG", "--pre-images", "."], "no regular file ."),
        (["OPLOG", "--pre-images", "x" * 5000], "cannot be read: File name too long"),
        (["OPLOG", "--ns", "a b"], "73 InvalidNamespace"),
        (["OPLOG", "--ns", "local"], "73 InvalidNamespace"),
        (["OPLOG", "--options", '{"nonsense": 1}'], "40415 IDLUnknownField"),
        (["OPLOG", "--options", '{"showExpandedEvents": true, "showExpandedEvents": true}'], "40413"),
        (["OPLOG", "--options", '{"resumeAfter": {"_data": "xyz"}}'], "9 FailedToParse"),
        (["OPLOG", "--options", '{"resumeAfter": {"_data": ""}}'], "40649"),
        (
            ["OPLOG", "--options", '{"startAfter": {"_data": "82"}}'],
            "the resume token is damaged: the bytes end in the middle of a value (15 Overflow)",
        ),
        (["OPLOG", "--pipeline", '[{"$group": {}}]'], "20 IllegalOperation"),
        (["OPLOG", "--pipeline", '[{"$match": {"$nonsense": 1}}]'], "2 BadValue"),
        (["--shard", "a=OPLOG", "--options", '{"showMigrationEvents": true}'], "31123"),
    ],
)
def test_faults_of_the_command_line(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], words: str
) -> None:
    write(tmp_path / "oplog.bson", entry(1))
    monkeypatch.chdir(tmp_path)
    outcome = here("replay", *(text.replace("OPLOG", "oplog.bson") for text in arguments))
    assert outcome.code == 2
    assert words in outcome.sentence
    assert outcome.output == b""


def test_a_process_prints_the_same(tmp_path: Path) -> None:
    oplog = write(tmp_path / "oplog.bson", entry(1))
    outcome = tailrace("replay", oplog, "--pipeline", '[{"$group": {}}]')
    assert (outcome.code, outcome.output) == (2, b"")
    assert "$group" in outcome.sentence


# Progress


@pytest.mark.parametrize("megabytes", [1, 12])
def test_progress_is_shown_for_large_inputs_on_a_terminal(tmp_path: Path, megabytes: int) -> None:
    blob = bytes(1 << 20)
    oplog = write(tmp_path / "oplog.bson", *(entry(n, o={"_id": n, "b": blob}) for n in range(megabytes)))
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "tailrace", "replay", str(oplog), "--out", str(tmp_path / "events")]
    done = subprocess.run(
        command, stderr=terminal, check=False, timeout=60, env={**os.environ, "TERM": "xterm"}
    )
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:  # the other side is closed: everything was read
        pass
    os.close(master)
    assert done.returncode == 0
    assert (b"MiB" in shown) == (megabytes > 8)


def test_the_release_that_is_imitated(tmp_path: Path) -> None:
    oplog = write(tmp_path / "oplog.bson", entry(1, o={"_id": 1}))
    older = tailrace("replay", oplog, "--server-version", "6.0.27")
    assert older.code == 0
    assert ResumeToken.parse_data(json.loads(older.lines[0])["_id"]["_data"]).version == 1
    unknown = tailrace(
        "replay", oplog, "--server-version", "6.0", "--options", '{"showCommitTimestamp": true}'
    )
    assert (unknown.code, unknown.lines) == (2, [])
    assert unknown.error.endswith("(40415 IDLUnknownField)\n")
    refused = tailrace("replay", oplog, "--server-version", "3.6")
    assert refused.code == 2
    assert refused.error.startswith(
        "tailrace: 3.6 is not a server version whose change streams can be imitated; give one of 4.0, 4.2, "
    )
