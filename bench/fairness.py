"""Small commands beside heavy ones: the times of ping, find and insert, in those of the same without them.

The heavy commands come from another process, one after another without a pause. Where `make mongod` has
installed a real server, it is measured in the same way, in the same run.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter, sleep

from pymongo import MongoClient

from bench.figures import percentile
from bench.server_process import Document, serving
from tests.oracle.real_server import missing_mongod, real_replica_set

SECONDS = 1.5
PAUSE = 0.002
DOCUMENTS = 10_000


def _counting(times: int, body: object) -> Document:
    return {
        "$reduce": {"input": {"$range": [0, times]}, "initialValue": 0, "in": {"$add": ["$$value", body]}}
    }


_SUM = _counting(3000, _counting(3000, "$_id"))

HEAVY: dict[str, Document] = {
    "expression": {"find": "c", "filter": {"$expr": {"$eq": [_SUM, -1]}}},
    "group": {
        "aggregate": "c",
        "pipeline": [{"$group": {"_id": {"$mod": ["$_id", 100]}, "n": {"$sum": "$x"}, "t": {"$max": "$t"}}}],
        "cursor": {},
    },
    "sort": {"find": "c", "sort": {"x": 1}, "singleBatch": True},
    "graphLookup": {
        "aggregate": "c",
        "pipeline": [
            {"$match": {"_id": 1}},
            {
                "$graphLookup": {
                    "from": "c",
                    "startWith": "$next",
                    "connectFromField": "next",
                    "connectToField": "_id",
                    "as": "found",
                }
            },
            {"$project": {"n": {"$size": "$found"}}},
        ],
        "cursor": {},
    },
    "regex": {"count": "c", "query": {"t": {"$regex": "^(a|aa)+$"}}},
    "update": {"update": "c", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"r": _SUM}}]}]},
}


@contextmanager
def _beside(uri: str, name: str | None) -> Iterator[None]:
    """Let another process run a heavy command again and again."""
    if name is None:
        yield
        return
    command = [sys.executable, "-m", "bench.fairness", uri, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.terminate()


def _times(work: Callable[[], object]) -> list[float]:
    taken = []
    end = perf_counter() + SECONDS
    while perf_counter() < end:
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
        sleep(PAUSE)
    return taken


def _measure(label: str, uri: str, client: MongoClient[Document]) -> None:
    database = client.bench
    database.c.insert_many(
        [
            {"_id": n, "next": n + 1, "x": n * 7919 % DOCUMENTS, "t": "a" * (25 + n % 8) + "b"}
            for n in range(DOCUMENTS)
        ]
    )
    ids = count(DOCUMENTS)
    works: dict[str, Callable[[], object]] = {
        "ping": lambda: client.admin.command("ping"),
        "find": lambda: database.c.find_one({"_id": 5}),
        "insert": lambda: database.others.insert_one({"_id": next(ids)}),
    }
    print(f"  {label}: milliseconds p50 / p99 / max, and p50 in times of the same with nothing beside it")
    alone: dict[str, float] = {}
    for heavy in (None, *HEAVY):
        line = []
        with _beside(uri, heavy):
            for name, work in works.items():
                taken = _times(work)
                p50, p99 = percentile(taken, 50), percentile(taken, 99)
                ratio = p50 / alone.setdefault(name, p50)
                shown = " / ".join(f"{seconds * 1000:.2f}" for seconds in (p50, p99, max(taken)))
                line.append(f"{name} {shown} ({ratio:.1f})")
        print(f"    {heavy or 'nothing':<12} {'   '.join(line)}", flush=True)


def main() -> None:
    print("fairness: small commands beside heavy ones")
    with serving("fairness") as server:
        _measure("Tailrace", server.uri, server.client)
    if missing_mongod() is None:
        with tempfile.TemporaryDirectory() as folder, real_replica_set(Path(folder)) as real:
            _measure("mongod", real.uri, real.client())


def _run_heavy(uri: str, name: str) -> None:
    with MongoClient[Document](uri) as client:
        print("begins", flush=True)
        while True:
            # An error ends a command as well, such as that of a pattern with too many steps.
            client.bench.command(HEAVY[name], check=False)


if __name__ == "__main__":
    _run_heavy(*sys.argv[1:])
