"""Entries per second of the local engine, from raw entries to finished events, against the plain loop."""

import gc
from itertools import islice
from statistics import median
from time import process_time

from bench import baseline
from tailrace.eventlog.local_engine import LocalEngine
from tailrace.model.scope import Scope
from tailrace.stages.plan import Plan
from tailrace.testing.workload import generate_bulk

ENTRIES = 100_000
BATCH = 1_000
ROUNDS = 5


def run_engine(entries: list[bytes]) -> list[bytes]:
    engine = LocalEngine(Plan.open(Scope.cluster(), {"allChangesForCluster": True}))
    events: list[bytes] = []
    for start in range(0, len(entries), BATCH):
        engine.push("", entries[start : start + BATCH])
        events += engine.drain()
    return events


def run_baseline(entries: list[bytes]) -> list[bytes]:
    return [event for raw in entries for event in baseline.transform(raw)]


def main() -> None:
    entries = list(islice(generate_bulk(seed=7, count=ENTRIES), ENTRIES))
    size = sum(map(len, entries)) / len(entries)
    ours, theirs = run_engine(entries[:20_000]), run_baseline(entries[:20_000])
    assert ours == theirs, "the engine and the plain loop disagree"
    print(f"engine: {len(entries)} entries of {size:.0f} bytes on average, {ROUNDS} rounds, processor time")
    ratios, rates = [], []
    for _ in range(ROUNDS):
        seconds = []
        for run in (run_engine, run_baseline):
            gc.collect()
            began = process_time()
            run(entries)
            seconds.append(process_time() - began)
        rates.append((len(entries) / seconds[0], len(entries) / seconds[1]))
        ratios.append(seconds[1] / seconds[0])
    print(f"  local engine  {median(rate for rate, _ in rates):10,.0f} entries/s")
    print(f"  plain loop    {median(rate for _, rate in rates):10,.0f} entries/s")
    print(f"  ratio         {median(ratios):10.2f}   (from {min(ratios):.2f} to {max(ratios):.2f})")
