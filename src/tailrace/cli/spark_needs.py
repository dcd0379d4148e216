"""Check whether the packages and the Java runtime that Spark needs are installed."""

from importlib.util import find_spec
from typing import Final

from tailrace.errors import UsageError

PACKAGES: Final = ("pyspark", "pyarrow", "deltalake", "numpy", "pandas")


def missing_for_spark() -> str | None:
    """Return one sentence about what to install; None if nothing is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return f"Spark needs {', '.join(missing)}; install them with pip install 'tailrace[spark]'"
    from tailrace.pipeline.java import missing_java  # which imports no package of Spark

    return missing_java()


def require_spark() -> None:
    """Raise `UsageError` if something is missing."""
    sentence = missing_for_spark()
    if sentence is not None:
        raise UsageError(sentence)
