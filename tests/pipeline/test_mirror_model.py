"""The SQL model of `examples/` on a mirrored table, with DuckDB and without Spark."""

from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from examples.run_model import run_model
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet


@pytest.mark.parametrize("deletion_vectors", [False, True])
def test_a_model_asks_for_fields_inside_of_arrays(
    server: ReplicaSet,
    client: MongoClient[dict[str, Any]],
    tmp_path: Path,
    deletion_vectors: bool,
) -> None:
    orders = client.shop.orders
    lamp = {"sku": "lamp", "qty": 2, "price": 9.5}
    desk = {"sku": "desk", "qty": 1, "price": 90.0}
    orders.insert_many(
        [
            {"_id": 1, "state": "new", "lines": [lamp]},
            {"_id": 2, "state": "new", "lines": [lamp, desk]},
            {"_id": 3, "state": "paid", "lines": [lamp]},
        ]
    )
    chosen = mirrored_namespaces(["shop"])
    settings = MirrorSettings(str(tmp_path), chosen, deletion_vectors=deletion_vectors)
    with DeploymentSource(server.uri) as source:
        for _ in range(2):
            MirrorJob(lambda progress: MirrorEngine(source, settings, progress=progress), None).run()
            orders.update_one({"_id": 2}, {"$set": {"state": "paid"}})
    rows = run_model(tmp_path, "examples/models/revenue_by_state.sql")
    assert rows.columns == ["state", "sku", "pieces", "revenue", "last_change"]
    assert [row[:4] for row in rows.fetchall()] == [
        ("new", "lamp", 2, 19.0),
        ("paid", "desk", 1, 90.0),
        ("paid", "lamp", 4, 38.0),
    ]
