"""One server with a history for all tests of the page, and a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tailrace.testing.replica_set import ReplicaSet
from tests.web.browser import chromium, missing_browser
from tests.web.site import Site, serving_page

STORED = 40
"""Documents that were inserted before the server began: events of the history."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    data, history = folder / "data", folder / "history"
    with ReplicaSet(data=data, history=history, builds_history=True) as replica_set:
        replica_set.client().past.orders.insert_many([{"_id": number} for number in range(STORED)])
        builder = replica_set._builder
        assert builder is not None
        builder.build()
    with serving_page("--data", data, "--history", history) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer: while it is open, an event loop runs in this thread, which other tests need."""
    reason = missing_browser()
    if reason is not None:
        pytest.skip(reason)
    with chromium() as found:
        yield found
