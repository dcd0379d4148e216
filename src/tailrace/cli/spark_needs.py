"""Check whether the packages and the Java runtime that Spark needs are installed."""

from importlib.util import find_spec
from typing import Final

from tailrace.errors import UsageError

PACKAGES: Final = ("pyspark", "pyarrow", "deltalake", "numpy", "pandas")


def missing_for_spark(master: str | None = None) -> str | None:
    """Return one sentence about what to install; None if nothing is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return f"Spark needs {', '.join(missing)}; install them with pip install 'tailrace[spark]'"
    from tailrace.pipeline.java import is_remote, missing_java  # which imports no package of Spark

    if not is_remote(master):
        return missing_java()
    if find_spec("grpc_status") is None:
        return "Spark Connect needs grpcio and others; install them with pip install 'tailrace[connect]'"
    return None


def require_spark(master: str | None = None) -> None:
    """Raise `UsageError` if something is missing."""
    sentence = missing_for_spark(master)
    if sentence is not None:
        raise UsageError(sentence)
