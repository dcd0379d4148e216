"""``python -m bench [--profile DIR] [--full] [NAME...]``: run the benchmarks and print their figures.

With ``--profile`` the servers of the benchmarks run under cProfile, which writes a profile for each to the
folder. With ``--full`` the benchmarks of the history use millions of entries.
"""

import os
import sys

from bench import (
    columns,
    drain,
    driver_drain,
    engine,
    fairness,
    fan_out,
    files,
    history_drain,
    history_streams,
    idle_streams,
    in_front,
    insert,
    latency,
    match_drain,
    memory,
    mirror,
    real_history,
    rebuilt_images,
    row_shapes,
    shard_plan,
    sharded_spark,
    sharded_streams,
    spark_history,
    spark_latency,
    spark_stream,
)
from bench.server_process import PROFILE_VARIABLE
from bench.spark_history import FULL_VARIABLE

BENCHMARKS = {
    "engine": engine.main,
    "memory": memory.main,
    "latency": latency.main,
    "fan-out": fan_out.main,
    "idle-streams": idle_streams.main,
    "in-front": in_front.main,
    "drain": drain.main,
    "driver-drain": driver_drain.main,
    "match-drain": match_drain.main,
    "insert": insert.main,
    "fairness": fairness.main,
    "files": files.main,
    "history-drain": history_drain.main,
    "history-streams": history_streams.main,
    "images": rebuilt_images.main,
    "row-shapes": row_shapes.main,
    "columns": columns.main,
    "shard-plan": shard_plan.main,
    "sharded-streams": sharded_streams.main,
    "spark-history": spark_history.main,
    "real-history": real_history.main,
    "mirror": mirror.main,
    "spark-latency": spark_latency.main,
    "spark-stream": spark_stream.main,
    "sharded-spark": sharded_spark.main,
}


def main(names: list[str]) -> int:
    if names[:1] == ["--profile"] and len(names) > 1:
        os.environ[PROFILE_VARIABLE] = names[1]
        names = names[2:]
    if names[:1] == ["--full"]:
        os.environ[FULL_VARIABLE] = "1"
        names = names[1:]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {unknown[0]}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
