"""Start Spark sessions with the settings that matter by measurement.

Only a session that Tailrace starts has them; in one that exists already, such as a notebook's, call
`tailrace.spark.register`: everything works, if not as fast. `docs/spark.md` lists what each setting gains.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tailrace.pipeline.java import is_remote, use_java
from tailrace.spark import register
from tailrace.spark.workers import choose_python

_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
SETTINGS: Final[Mapping[str, str]] = {
    # A checkpoint's file is renamed into place, without the locks that a link would need.
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    # No checksum file beside every small file of a checkpoint.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.memory": "1g",
    # A machine may not be reachable under its own name; its processes always reach each other here.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}
LIGHT_JAVA: Final[Mapping[str, str]] = {
    JAVA_OPTIONS: f"{LOCAL_SETTINGS[JAVA_OPTIONS]} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
}
"""For a local session that does little in Java: it starts with 40 % less processor time."""


def is_submitted() -> bool:
    """Return whether `spark-submit` started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def build_session(
    master: str | None = None, app: str = "tailrace", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with Tailrace's data sources; ``conf`` overrides any setting.

    The default ``master`` is that of `spark-submit`, else all cores of this machine; ``sc://HOST`` is a
    server of Spark Connect. Raises `UsageError` if there is no Java.
    """
    if master is not None and is_remote(master):
        return _remote_session(master, app, conf or {})
    use_java()
    builder = SparkSession.builder.appName(app)
    if master is None and not is_submitted():
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    settings = dict(SETTINGS)
    is_local = master is not None and master.startswith("local")
    choose_python(is_local=is_local)
    if is_local:
        settings |= LOCAL_SETTINGS
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _remote_session(address: str, app: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect; its server has settings of its own, and its executors a Python."""
    builder = SparkSession.builder.appName(app).remote(address)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
