"""`tailrace verify` finds what a pipeline has lost, doubled, reordered and changed, and nothing else."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest
from bson import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from tailrace import ReplicaSet
from tailrace.bson.extjson import dumps_canonical
from tests.cli.console import Here
from tests.laws.law_seeds import BASE_SEED

EVENTS = 40


@pytest.fixture(scope="module")
def source() -> Iterator[ReplicaSet]:
    with ReplicaSet() as found:
        yield found


@pytest.fixture(scope="module")
def lines(source: ReplicaSet) -> list[str]:
    """The events of a workload as a pipeline writes them."""
    client: MongoClient[Any] = source.client(document_class=RawBSONDocument)
    rng = random.Random(BASE_SEED)
    orders = client.shop.orders
    with orders.watch() as stream:
        for number in range(EVENTS // 2):
            orders.insert_one({"_id": number, "n": Int64(number)})
            orders.update_one({"_id": rng.randrange(number + 1)}, {"$inc": {"n": 1}})
        return [dumps_canonical(next(stream).raw) for _ in range(EVENTS)]


def verify(here: Here, source: ReplicaSet, sink: Path, *further: str) -> tuple[int, dict[str, Any]]:
    done = here("verify", "--source", source.uri, "--ns", "shop.orders", "--sink", sink, "--json", *further)
    assert done.error == ""
    return done.code, json.loads(done.output)


def test_a_faithful_sink_is_equal(here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path) -> None:
    sink = tmp_path / "events.jsonl"
    sink.write_text("\n".join(lines))
    assert verify(here, source, sink) == (0, {"compared": EVENTS, "faults": {}, "examples": {}})
    sink.write_text("\n".join(lines[5:-5]))  # it began later, and is not at the end yet
    assert verify(here, source, sink)[1]["compared"] == EVENTS - 10
    done = here("verify", "--source", source.uri, "--ns", "shop.orders", "--sink", sink)
    assert done.output == b"compared          30 events\nresult            equal\n"


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + 5))
def test_seeded_faults_are_found(
    here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    inside = rng.sample(range(1, EVENTS - 1), 8)
    dropped, doubled, changed, moved = inside[:2], inside[2:4], inside[4:6], inside[6]
    written: list[str] = []
    for number, line in enumerate(lines):
        if number in changed:
            line = line.replace('"wallTime"', '"wallTimes"')
        if number not in (*dropped, moved):
            written += [line] * (2 if number in doubled else 1)
    other = "00" + json.loads(lines[0])["_id"]["_data"][2:]
    written.insert(
        rng.randrange(1, len(written)), lines[0].replace(json.loads(lines[0])["_id"]["_data"], other)
    )
    written.append(lines[moved]) if moved < EVENTS - 2 else written.insert(1, lines[moved])
    sink = tmp_path / "events.jsonl"
    sink.write_text("\n".join(written))
    code, report = verify(here, source, sink)
    assert code == 1
    assert report["faults"] == {"doubled": 2, "missing": 2, "different": 2, "unexpected": 1, "reordered": 1}
    examples = report["examples"]
    assert examples["missing"]["of"] in [json.loads(lines[number])["_id"]["_data"] for number in dropped]
    assert examples["different"]["path"] == "wallTime"
    assert examples["different"]["found"] in written
    assert examples["reordered"]["of"] == json.loads(lines[moved])["_id"]["_data"]


def test_the_order_of_each_document_is_enough_if_asked(
    here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path
) -> None:
    sink = tmp_path / "events.jsonl"
    by_key = sorted(lines, key=lambda line: json.dumps(json.loads(line)["documentKey"]))
    sink.write_text("\n".join(by_key))
    assert verify(here, source, sink)[1]["faults"].keys() == {"reordered"}
    assert verify(here, source, sink, "--order", "key")[0] == 0


def test_tables_of_events(here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path) -> None:
    tokens = [json.loads(line)["_id"]["_data"] for line in lines]
    frame = polars.DataFrame({"token": tokens, "event": lines})
    frame.write_parquet(tmp_path / "events.parquet")
    assert verify(here, source, tmp_path / "events.parquet")[0] == 0
    frame.slice(0, EVENTS - 1).drop("event").vstack(frame.drop("event")[:1]).write_delta(tmp_path / "delta")
    assert verify(here, source, tmp_path / "delta")[1]["faults"] == {"doubled": 1}


def test_documents(here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path) -> None:
    client = source.client()
    client.copy.orders.insert_many(client.shop.orders.find())
    sink = ("--sink", source.uri, "--sink-ns", "copy.orders", "--kind", "documents")
    arguments = ("verify", "--source", source.uri, "--ns", "shop.orders", *sink)
    assert here(*arguments).output.splitlines()[1] == b"result            equal"
    client.copy.orders.delete_one({"_id": 3})
    client.copy.orders.update_one({"_id": 4}, {"$set": {"n": 4.5}})
    client.copy.orders.insert_one({"_id": "other"})
    report = json.loads(here(*arguments, "--json").output)
    assert report["faults"] == {"missing": 1, "different": 1, "unexpected": 1}
    assert report["examples"]["missing"]["of"] == '{"_id": {"$numberInt": "3"}}'
    assert report["examples"]["different"]["path"] == "n"


def test_relaxed_lines(here: Here, source: ReplicaSet, lines: list[str], tmp_path: Path) -> None:
    done = here(
        "watch",
        source.uri,
        "shop.orders",
        "--relaxed",
        "--max",
        "5",
        "--start-after",
        json.loads(lines[0])["_id"]["_data"],
    )
    sink = tmp_path / "relaxed.jsonl"
    sink.write_bytes(done.output)
    assert verify(here, source, sink, "--relaxed")[0] == 0
    assert verify(here, source, sink)[1]["faults"] == {"different": 5}


def test_what_cannot_be_compared_is_refused(here: Here, source: ReplicaSet, tmp_path: Path) -> None:
    arguments = ("verify", "--source", source.uri, "--ns", "shop.orders", "--sink")
    assert here(*arguments, tmp_path / "none").sentence == f"there is no sink {tmp_path / 'none'}"
    (tmp_path / "bad.jsonl").write_text("no json\n")
    assert "line 1 of" in here(*arguments, tmp_path / "bad.jsonl").sentence
    polars.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    sentence = here(*arguments, tmp_path / "other.parquet").sentence
    assert sentence.endswith(
        "has no column token or resumeToken or _id with the resume token; its columns are a"
    )
    assert "name the collection" in here(*arguments, source.uri).sentence
