"""A mirror of a sharded collection, while documents and chunks move between shards."""

import random
import threading
from pathlib import Path
from typing import Any

from bson import encode
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.sharded_cluster import ShardedCluster

SEED = 20261118
DOCUMENTS = 600


def write(client: MongoClient[Any], ending: threading.Event) -> None:
    """Change, delete and move documents; a write that meets a moving chunk may be refused."""
    rng = random.Random(SEED)
    orders = client.shop.orders
    while not ending.is_set():
        number = rng.randrange(DOCUMENTS)
        found = orders.find_one({"_id": number})
        if found is None:
            continue
        key = {"_id": number, "region": found["region"]}
        try:
            if rng.random() < 0.1:
                orders.delete_one(key)
            elif rng.random() < 0.5:
                orders.update_one(key, {"$push": {"notes": rng.random()}})
            else:
                with client.start_session() as session, session.start_transaction():
                    moved = {"$set": {"region": rng.randrange(100)}}
                    orders.update_one(key, moved, session=session)
        except OperationFailure:
            continue


def test_documents_that_move_between_shards_stay_in_the_table(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chosen = mirrored_namespaces(["shop"])
    settings = MirrorSettings(root=str(tmp_path), chosen=chosen, range_documents=100, file_bytes=10_000)
    with (
        ShardedCluster(shards=2) as cluster,
        MongoClient[Any](cluster.uri) as client,
        DeploymentSource(cluster.uri) as source,
    ):
        client.admin.command("shardCollection", "shop.orders", key={"region": 1})
        client.shop.orders.insert_many([{"_id": n, "region": n % 100, "notes": []} for n in range(DOCUMENTS)])
        client.admin.command("split", "shop.orders", middle={"region": 50})
        ending = threading.Event()
        writer = threading.Thread(target=write, args=(client, ending))
        writer.start()

        def run() -> MirrorEngine:
            job = MirrorJob(lambda progress: MirrorEngine(source, settings, progress=progress), None)
            engine = job.run()
            assert engine is not None
            return engine

        try:
            run()
            holder = client.config.chunks.find_one({"min": {"region": 50}})
            assert holder is not None
            others = [
                shard["_id"] for shard in client.config.shards.find() if shard["_id"] != holder["shard"]
            ]
            client.admin.command("moveChunk", "shop.orders", find={"region": 60}, to=others[0])
            run()
        finally:
            ending.set()
            writer.join()
        found = run().tables["shop.orders"].documents()
        assert found == [encode(document) for document in client.shop.orders.find().sort("_id")]
        assert 0 < len(found) < DOCUMENTS
