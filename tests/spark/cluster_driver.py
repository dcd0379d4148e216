"""A driver on a standalone cluster, in a process that tests can kill: master, source, history, options."""

import logging
import sys

from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.history_job import HistoryJob
from tailrace.spark.session import build_session


def main(master: str, source: str, history: str, *options: str) -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO)
    interval = 0.0 if "follow" in options else None
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.executor.memory": "512m",
        "spark.cores.max": "1" if "half" in options else "2",
        "spark.executor.cores": "1",
        # As many tasks as on a cluster whose tasks merge files, too.
        "spark.default.parallelism": "8",
    }
    settings = PipelineSettings(history, interval=interval, max_entries=400, small_entries=40)
    job = HistoryJob(DeploymentSource(source), settings)
    spark = build_session(master, "tailrace test", conf)
    progress = job.run(spark)
    print(f"done {progress.rows}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
