"""What streams cost a real MongoDB, opened on it directly and through `tailrace serve --source`.

Drivers' streams on one collection wait for events (`watchers.py`) while documents are inserted one at a time.
Measured are the processor time of the mongod, and the time from the acknowledgement of an insert until a
stream has its event. Without a real server there is nothing to measure.
"""

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bson import Int64
from pymongo import MongoClient

from bench.figures import percentile, print_goal, print_times
from bench.server_process import serving
from bench.watching import Listening, watching
from tests.oracle.real_server import RealMongod, missing_mongod, real_replica_set

STREAMS = (1, 50, 1000)
INSERTS = 50
LATENCIES = 300
ROUNDS = 5
PAUSE = 0.1
SETTLING = 5.0
"""Seconds until all streams have the last event; idle streams have a cost, too."""
_TICKS = os.sysconf("SC_CLK_TCK")

Document = dict[str, Any]


def main() -> None:
    reason = missing_mongod()
    print("in-front: streams on a real MongoDB and through tailrace serve --source")
    if reason is not None:
        print(f"  not measured: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder, real_replica_set(Path(folder) / "set") as real:
        source = real.members[0]
        with real.client() as client, serving("in-front", "--source", real.uri) as front:
            client.bench.events.insert_one({"number": Int64(-1)})
            _measure(source, client, {"direct": source, "through Tailrace": front})


def _measure(source: RealMongod, client: MongoClient[Document], sides: Mapping[str, Listening]) -> None:
    costs: dict[tuple[str, int], float] = {}
    quiet = _cost(source, client, None, 0)
    print(f"  {INSERTS} inserts without streams: {quiet:.2f} s of the mongod's processor time")
    for streams in STREAMS:
        for label, side in sides.items():
            costs[label, streams] = _cost(source, client, side, streams)
            print(f"  {streams:5} streams {label:<18}{costs[label, streams]:8.2f} s", flush=True)
    of_one = costs["direct", STREAMS[0]]
    print_goal("1,000 through Tailrace / 1 direct", costs["through Tailrace", 1000] / of_one, "1.50")
    print_goal("1,000 direct / 1 direct", costs["direct", 1000] / of_one, "-")
    tails: dict[str, list[float]] = {label: [] for label in sides}
    for _ in range(ROUNDS):
        for label, delays in _delays(client, sides).items():
            print_times(f"write to event, {label}", delays)
            tails[label].append(percentile(delays, 99))
    # The middle one of several rounds: a moment at which the machine does something else is in few of them.
    through, direct = (median(tails[label]) for label in ("through Tailrace", "direct"))
    print_goal("p99, through Tailrace / direct", through / direct, "3.00")


def _cost(source: RealMongod, client: MongoClient[Document], side: Listening | None, streams: int) -> float:
    """Return the mongod's processor time while documents are inserted and streams show them."""
    if side is None:
        return _inserting(source, client)
    with watching(side, streams, 0) as watchers:
        used = _inserting(source, client)
        watchers.stop()
        shown = sum(len(times) for times in watchers.arrivals.values())
        if shown != streams * INSERTS:
            raise SystemExit(f"{shown} events were shown, not {streams * INSERTS}")
    return used


def _inserting(source: RealMongod, client: MongoClient[Document]) -> float:
    began = _processor_seconds(source)
    for number in range(INSERTS):
        client.bench.events.insert_one({"number": Int64(number)})
        time.sleep(PAUSE)
    time.sleep(SETTLING)
    return _processor_seconds(source) - began


def _delays(client: MongoClient[Document], sides: Mapping[str, Listening]) -> dict[str, list[float]]:
    """Return the seconds from an acknowledged insert to its event, of a stream on each side.

    A stream often has the event before the insert is acknowledged: that counts as 0.
    """
    acknowledged = {}
    with ExitStack() as stack:
        watchers = {label: stack.enter_context(watching(side, 1, 0)) for label, side in sides.items()}
        for number in range(LATENCIES):
            client.bench.events.insert_one({"number": Int64(number)})
            acknowledged[number] = time.monotonic()
            time.sleep(0.01)
        time.sleep(1.0)
        for each in watchers.values():
            each.stop()
    return {
        label: [max(each.arrivals[number][0] - at, 0.0) for number, at in acknowledged.items()]
        for label, each in watchers.items()
    }


def _processor_seconds(source: RealMongod) -> float:
    assert source.process is not None
    fields = Path(f"/proc/{source.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
