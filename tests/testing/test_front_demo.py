"""The tour in front of a deployment ends well, and writes nothing to it."""

import pytest

from examples import front_demo
from tailrace.testing.replica_set import ReplicaSet


def test_the_tour_of_a_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        for number in range(5):
            orders.insert_one({"_id": number})
        before = written(source)
        assert front_demo.main([source.uri]) == 0
        assert written(source) == before
        shown = capsys.readouterr().out
        assert f"serves the change streams of {','.join(source.members)}" in shown
        assert "the same 4." in shown


def written(source: ReplicaSet) -> list[object]:
    """Its oplog without the no-ops that it writes by itself."""
    return [entry["ts"] for entry in source.oplog() if entry["op"] != "n"]
