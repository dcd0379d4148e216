"""Which Python the workers of a session run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from tailrace.errors import UsageError

_SECONDS: Final = 30
_SCRIPT: Final = Path(__file__).with_name("worker-python.sh")
_SCRIPT_RUNS: Final = "TAILRACE_PYTHON"
_PYTHON: Final = "PYSPARK_PYTHON"


def choose_python(*, is_local: bool) -> None:
    """Let workers run this Python, which has Tailrace, unless the environment names another one.

    Workers on this machine run it by a script, so that they import the installed PySpark.
    """
    if os.environ.get(_PYTHON, sys.executable) not in (sys.executable, str(_SCRIPT)):
        return
    if is_local and _is_installed() and os.access(_SCRIPT, os.X_OK):
        os.environ |= {_PYTHON: str(_SCRIPT), _SCRIPT_RUNS: sys.executable}
    else:
        os.environ[_PYTHON] = sys.executable


def _is_installed() -> bool:
    """Whether Spark is that of the package `pyspark`, and not a distribution of its own."""
    home = Path(pyspark.__file__).parent
    return (home / "bin" / "spark-submit").exists() and Path(os.environ.get("SPARK_HOME", home)) == home


def check_workers(spark: SparkSession) -> None:
    """Raise `UsageError` if workers of a local session cannot import Tailrace.

    Spark takes the Python of its workers from a variable when it starts, by default the first on the path.
    """
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if context is None or not str(context.master).startswith("local"):
        return
    name = str(context.pythonExec)
    found = shutil.which(name)
    if found is not None and os.path.dirname(found) in (os.path.dirname(sys.executable), str(_SCRIPT.parent)):
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
