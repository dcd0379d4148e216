"""Entries per second of the local engine, from raw entries to finished events, against the plain loop."""

import gc
from collections.abc import Callable
from itertools import islice
from time import process_time

from bench import baseline
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine
from tests.support.workload import generate_bulk

Run = Callable[[list[bytes]], list[bytes]]

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
    if run_engine(entries[:20_000]) != run_baseline(entries[:20_000]):
        raise SystemExit("the engine and the plain loop disagree")
    print(f"engine: {len(entries)} entries of {size:.0f} bytes on average, {ROUNDS} rounds, processor time")
    seconds: dict[Run, list[float]] = {run_engine: [], run_baseline: []}
    for _ in range(ROUNDS):  # alternating, so that other load affects both
        for run, taken in seconds.items():
            gc.collect()
            began = process_time()
            run(entries)
            taken.append(process_time() - began)
    ours_best, theirs_best = min(seconds[run_engine]), min(seconds[run_baseline])
    ratios = [theirs / ours for ours, theirs in zip(*seconds.values(), strict=True)]
    print(f"  local engine  {len(entries) / ours_best:10,.0f} entries/s in its best round")
    print(f"  plain loop    {len(entries) / theirs_best:10,.0f} entries/s in its best round")
    spread = f"single rounds {min(ratios):.2f} to {max(ratios):.2f}"
    print(f"  ratio         {theirs_best / ours_best:10.2f} ({spread})")
