"""docs/consumers.md: its code runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tailrace import ConsumerGroup, Delivery, Retries, consume
from tailrace.testing.replica_set import ReplicaSet

PAGE = (Path(__file__).parents[3] / "docs" / "consumers.md").read_text()
ADDRESS = "mongodb://127.0.0.1:27017/?replicaSet=rs0"


def code_with(mark: str, server: ReplicaSet) -> str:
    found = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if mark in block]
    assert len(found) == 1
    return str(found[0]).replace(ADDRESS, server.uri)


def test_the_loop_prints_what_happens_to_orders(capsys: pytest.CaptureFixture[str]) -> None:
    with ReplicaSet() as server:
        consume(server.uri, "billing", ns="shop.orders").close()
        server.client().shop.orders.insert_one({"_id": 1})
        exec(code_with("for delivery in", server) + "        break\n", {})
    assert capsys.readouterr().out == "insert {'_id': 1}\n"


def test_retries_and_control_do_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    handled: list[Delivery] = []
    with ReplicaSet() as server:
        yesterday = server.cluster_time
        with consume(server.uri, "billing", ns="shop.orders", max_await_time_ms=20) as consumer:
            server.client().shop.orders.insert_one({"_id": 1})

            def handle(delivery: Delivery) -> None:
                handled.append(delivery)
                if len(handled) == 2:
                    consumer.stop()
                if len(handled) == 1:
                    raise ValueError("once")

            names: dict[str, Any] = {"consumer": consumer, "handle": handle}
            exec(code_with("import Retries", server), names)
            assert names["Retries"] is Retries
            assert [delivery.event["fullDocument"] for delivery in handled] == [{"_id": 1}] * 2
        exec(code_with("import ConsumerGroup", server), {"yesterday": yesterday})
        assert capsys.readouterr().out == "1\n"
        with ConsumerGroup(server.uri, "billing") as group:
            assert not group.status().is_paused
