"""After kill -9 at any moment no acknowledged write is lost, and store and oplog agree."""

import os
import random
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.events.update_diff import apply_diff, diff_of, is_delta
from tailrace.mongod.store.reader import Snapshot
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.validation import Validation
from tests.mongod.store.durable_writer import NAMESPACE, WRITERS, plan

SEED = int(os.environ.get("TAILRACE_SEED", "20260000"))
ROUNDS = 4
ROOT = Path(__file__).parents[3]
State = dict[str, bytes]


def write_until_killed(path: Path, seed: int, acknowledged: int) -> dict[int, int]:
    """Kill writers after a number of acknowledgements; returns the number of statements of each writer."""
    command = [sys.executable, "-m", "tests.mongod.store.durable_writer", str(path), str(seed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    answers = dict.fromkeys(range(WRITERS), 0)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in islice(process.stdout, acknowledged):
            answers[int(line.split()[0])] += 1
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:  # lines printed before the end are acknowledged, too
            if line.endswith("\n"):
                answers[int(line.split()[0])] += 1
    assert process.returncode == -signal.SIGKILL
    return answers


def states_after(seed: int, writer: int, answers: int) -> list[State]:
    """The possible states after a writer: all acknowledged statements, and maybe the next one."""
    state: State = {}
    states = [state]
    for statement in islice(plan(seed, writer), answers + 1):
        state = {**state}
        for name, document in statement.changes.items():
            if document is None:
                state.pop(name, None)
            else:
                state[name] = document
        states.append(state)
    return states[answers:]


def stored(snapshot: Snapshot) -> State:
    collection = snapshot.catalog.collection(NAMESPACE)
    assert collection is not None
    return {documents.decode(raw)["_id"]: raw for _, raw in snapshot.records(collection)}


def replayed(snapshot: Snapshot) -> State:
    """The documents according to the oplog."""
    state: State = {}
    for _, raw in snapshot.entries():
        o = rawbson.subdocument(raw, b"o") or rawbson.EMPTY
        inner = rawbson.field(o, b"applyOps")
        if inner is None:
            apply(state, raw)
            continue
        for _, _, start, end in rawbson.elements(inner[1]):
            apply(state, inner[1][start:end])
    return state


def apply(state: State, operation: bytes) -> None:
    if rawbson.text(operation, rawbson.find(operation, b"ns")) != NAMESPACE:
        return
    op = rawbson.text(operation, rawbson.find(operation, b"op"))
    o = rawbson.subdocument(operation, b"o") or rawbson.EMPTY
    key = o if op == "d" else rawbson.subdocument(operation, b"o2") or rawbson.EMPTY
    name = documents.decode(key)["_id"]
    if op == "d":
        del state[name]
    elif op == "u":
        assert name in state, "an update of a document that is not there"
        state[name] = apply_diff(state[name], diff_of(o)) if is_delta(o) else o
    else:
        assert name not in state, "an insert of a document that is there"
        state[name] = o


def check(snapshot: Snapshot) -> None:
    """Check that records, index keys and counters agree."""
    collection = snapshot.catalog.collection(NAMESPACE)
    assert collection is not None
    validation = Validation(snapshot, collection)
    for _ in validation.steps():
        pass
    assert validation.errors == []
    times = [time for time, _ in snapshot.entries()]
    assert times == sorted(set(times))


def test_kill_9_loses_no_acknowledged_write(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    settled: State = {}
    for number in range(ROUNDS):
        seed = SEED + number
        answers = write_until_killed(tmp_path, seed, rng.randrange(1, 120))
        store = Store.open(tmp_path, map_size=1 << 30)
        try:
            with store.snapshot() as snapshot:
                found = stored(snapshot)
                for writer in range(WRITERS):
                    own = {k: v for k, v in found.items() if k.startswith(f"{seed}/{writer}/")}
                    assert own in states_after(seed, writer, answers[writer]), (seed, writer, answers)
                assert {k: v for k, v in found.items() if not k.startswith(f"{seed}/")} == settled
                assert replayed(snapshot) == found
                check(snapshot)
                settled = found
        finally:
            store.close()
    assert settled


def test_every_start_begins_a_new_term(tmp_path: Path) -> None:
    for term in (1, 2, 3):
        store = Store.open(tmp_path, map_size=1 << 30)
        try:
            assert store.term == term
            with store.snapshot() as snapshot:
                *_, (_, newest) = snapshot.entries()
                entry = documents.decode(newest)
                assert (entry["o"], entry["t"]) == ({"msg": "new primary"}, term)
        finally:
            store.close()
