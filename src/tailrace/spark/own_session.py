"""A Spark session for one command: started quietly, stopped at its end, failures as one sentence."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.errors import TailraceError, UsageError
from tailrace.spark.session import build_session

_LOCAL_MASTER: Final = "local[*,4]"
"""All cores; a task whose worker died is retried, which a plain local master does not do."""


@contextmanager
def own_session(master: str | None, app: str = "tailrace replay") -> Iterator[SparkSession]:
    """Yield a session whose Java does not write to the command's standard error."""
    with tempfile.TemporaryFile() as java_errors:
        try:
            with _standard_error_to(java_errors.fileno()):
                spark = build_session(master or _LOCAL_MASTER, app)
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
