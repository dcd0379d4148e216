"""Spark for one command: started quietly, stopped at its end, its failures as one sentence."""

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
"""All cores; a task whose worker died is tried again, which a plain local master does not do."""


@contextmanager
def own_session(master: str | None, app: str = "tailrace replay") -> Iterator[SparkSession]:
    """A session; what its Java says on standard error is kept out of the command's own."""
    with tempfile.TemporaryFile() as said:
        try:
            with _standard_error_to(said.fileno()):
                spark = build_session(master or _LOCAL_MASTER, app)
        except TailraceError:
            raise
        except Exception as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1].strip() if lines else _first_line(error)
            raise UsageError(f"Spark could not be started ({reason}); use --engine local") from None
        try:
            yield spark
        except (Py4JError, PySparkException) as error:
            raise UsageError(f"Spark gave up ({_first_line(error)}); use --engine local") from None
        finally:
            spark.stop()


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """Child processes that are started meanwhile write there as long as they live."""
    if sys.stderr is not None:
        sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
