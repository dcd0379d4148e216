"""Spark sessions of the commands; failures are one sentence."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.errors import PipelineError, TailraceError, UsageError
from tailrace.spark.connections import Py4JError
from tailrace.spark.session import LIGHT_JAVA, build_session, is_submitted

_LOCAL_MASTER: Final = "local[*,4]"
"""All cores; a task whose worker died is retried, which a plain local master does not do."""


def _command_master(master: str | None) -> str | None:
    return _LOCAL_MASTER if master is None and not is_submitted() else master


def start_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start the session of `tailrace pipeline`; `PipelineError` if Spark does not start."""
    master = _command_master(master)
    if master is not None and master.startswith("local"):
        conf = {**LIGHT_JAVA, **conf}  # rows never get to Java
    try:
        return build_session(master, "tailrace pipeline", conf)
    except (PySparkException, Py4JError) as error:
        line = next((line for line in str(error).splitlines() if "Exception: " in line), str(error))
        reason = line.rpartition("Exception: ")[2]
        raise PipelineError(
            f"Spark could not be started: {reason}; check --master and --spark-conf"
        ) from None


def stop_session(spark: SparkSession) -> None:
    """Stop a session, also if Java has ended before it; nothing is lost then.

    PySpark's own server for accumulators then ends only with a second call. Until it has ended, it may write
    a traceback, which has to be a line of the log.
    """
    try:
        spark.stop()
    except Exception:
        with suppress(Exception):
            spark.stop()


@contextmanager
def quiet_session(master: str | None) -> Iterator[SparkSession]:
    """Yield the session of `tailrace replay`, whose Java does not write to standard error; stop it after."""
    with tempfile.TemporaryFile() as java_errors:
        try:
            with _standard_error_to(java_errors.fileno()):
                spark = build_session(_command_master(master), "tailrace replay")
        except TailraceError:
            raise
        except Exception as error:
            java_errors.seek(0)
            lines = java_errors.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1].strip() if lines else _first_line(error)
            raise UsageError(f"Spark could not be started ({reason}); use --engine local") from None
        try:
            yield spark
        except (Py4JError, PySparkException) as error:
            raise UsageError(f"Spark failed ({_first_line(error)}); use --engine local") from None
        finally:
            spark.stop()


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """Redirect file descriptor 2; child processes started in the block keep writing there."""
    if sys.stderr is not None:
        sys.stderr.flush()
    original = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
