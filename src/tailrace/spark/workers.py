"""Which Python the workers of a session run."""

import os
import shutil
import subprocess
import sys
from typing import Final

from pyspark.sql import SparkSession

from tailrace.errors import UsageError

_SECONDS: Final = 30


def check_workers(spark: SparkSession) -> None:
    """Raise `UsageError` if workers of a local session cannot import Tailrace.

    Spark takes the Python of its workers from a variable when it starts, by default the first on the path.
    """
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if context is None or not str(context.master).startswith("local"):
        return
    name = str(context.pythonExec)
    found = shutil.which(name)
    if found is not None and os.path.dirname(found) == os.path.dirname(sys.executable):
        return
    if found is not None and _has_tailrace(found):
        return
    raise UsageError(
        f"Spark's workers run {found or name}, which has no Tailrace; set the variable PYSPARK_PYTHON to "
        f"{sys.executable} before the session is started"
    )


def _has_tailrace(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", "import tailrace.spark"], capture_output=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
