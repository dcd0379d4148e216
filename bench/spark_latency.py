"""From an acknowledged insert to its event in a stream that reads only the history (`--head off`).

The steps are: oplog, a batch of the Spark pipeline, a Parquet file, a Delta commit, the server that notices
it, the stream. The server is idle before each insert. The time of the insert is printed as well.
"""

import random
from time import monotonic, perf_counter, sleep

from bench.figures import percentile, print_goal, print_times
from bench.latency import Watcher
from bench.server_process import serving

ROUNDS = 100
WARM_UP = 30
LONGEST_PAUSE = 0.4
"""Between rounds; random, so that inserts are not synchronised with the pipeline."""
AWAIT_MS = 10_000
SECONDS_TO_START = 120
GOAL = 0.150


def main() -> None:
    print(f"spark-latency: {ROUNDS} inserts into an idle server, one stream, --head off")
    rng = random.Random(1)
    sent, acknowledged = [], []
    with serving("spark_latency", "--head", "off") as server:
        collection = server.client.bench.latency
        collection.insert_one({"_id": "first"})
        watcher = Watcher(collection, last=WARM_UP + ROUNDS - 1, await_ms=AWAIT_MS, seconds=SECONDS_TO_START)
        began = monotonic()
        for number in range(WARM_UP + ROUNDS):
            sent.append(perf_counter())
            collection.insert_one({"_id": number, "text": "x" * 100})
            acknowledged.append(perf_counter())
            watcher.wait()
            if number == 0:
                print(f"  {'first event, Spark started':<34}{monotonic() - began:8.1f} s", flush=True)
            sleep(rng.uniform(0.05, LONGEST_PAUSE))
        watcher.join()
    inserts = [end - start for start, end in zip(sent, acknowledged, strict=True)][WARM_UP:]
    after = [end - start for start, end in zip(acknowledged, watcher.times, strict=True)][WARM_UP:]
    print_times("insert, acknowledged", inserts)
    print_times("insert acknowledged to event", after)
    print_goal("p50", percentile(after, 50) * 1000, f"at most {GOAL * 1000:.0f} ms", " ms")


if __name__ == "__main__":
    main()
