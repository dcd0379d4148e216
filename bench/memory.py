"""Peak memory of a replay of a small and a large oplog; they should not differ."""

import subprocess
import sys

COUNTS = (100_000, 1_000_000)

CHILD = """
import resource, sys
from itertools import islice
from tailrace.log.local_engine import LocalEngine
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tests.support.workload import generate_bulk

engine = LocalEngine(Plan.open(Scope.cluster(), {"allChangesForCluster": True}))
entries = generate_bulk(seed=7, count=int(sys.argv[1]))
events = 0
while batch := list(islice(entries, 1000)):
    engine.push("", batch)
    events += len(engine.drain())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, events)
"""


def peak(count: int) -> tuple[int, int]:
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(count)], capture_output=True, text=True, check=True
    )
    kilobytes, events = result.stdout.split()
    return int(kilobytes), int(events)


def main() -> None:
    print("memory: peak resident size of a process that generates and replays an oplog")
    sizes = []
    for count in COUNTS:
        kilobytes, events = peak(count)
        sizes.append(kilobytes)
        print(f"  {count:>9,} entries, {events:>9,} events  {kilobytes / 1024:7.1f} MiB")
    print(f"  ratio {sizes[1] / sizes[0]:.2f} for ten times the input")
