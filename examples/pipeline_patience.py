"""How long the tours wait for the Spark pipeline of their server: as long as it works."""

import time
from typing import Any, Final

from pymongo import MongoClient

_MOST_SECONDS: Final = 900
"""The pipeline has a low priority, so a busy machine may take minutes to start it."""
_MOST_FAILURES: Final = 3
"""The server starts it again after each."""


def check_pipeline(client: MongoClient[Any], started: float) -> None:
    """End the program if the server's pipeline failed, or has not done its work in a quarter of an hour.

    ``started`` is when the program began to wait, by `time.monotonic`.
    """
    pipeline = client.admin.command("serverStatus")["pipeline"]
    if pipeline["state"] == "failed" or pipeline["failures"] >= _MOST_FAILURES:
        raise SystemExit(f"the pipeline failed: {pipeline.get('lastFailure') or 'its error is above'}")
    if time.monotonic() - started > _MOST_SECONDS:
        raise SystemExit("the pipeline wrote no history in time; run it with --log-level info to see why")
