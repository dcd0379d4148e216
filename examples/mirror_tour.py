# %% [markdown]
# # A collection as a table, cell by cell
#
# Open this file as a notebook (VS Code, Jupyter with jupytext), or run it. It starts a replica set.

# %%
import tempfile
from pathlib import Path

import polars
from pyspark.sql import SparkSession

from tailrace import ReplicaSet, change_stream, mirror

spark = SparkSession.builder.appName("tour").getOrCreate()
server = ReplicaSet().start()
lake = Path(tempfile.mkdtemp(prefix="lake-"))
orders = server.client().shop.orders
orders.insert_many(
    [
        {"_id": 1, "state": "paid", "lines": [{"sku": "lamp", "qty": 2, "price": 9.5}]},
        {
            "_id": 2,
            "state": "new",
            "lines": [{"sku": "lamp", "qty": 1, "price": 9.5}, {"sku": "desk", "qty": 1}],
        },
        {"_id": 3, "state": "new", "lines": "none"},
    ]
)

# %% [markdown]
# The columns are given: `lines` is an array. What does not fit is a dead letter, and says why.

# %%
lines = "array<struct<sku: string, qty: int, price: double>>"
schema = {"shop.orders": f"_id bigint not null, state string, lines {lines}"}
table = mirror(spark, server.uri, lake, namespaces=["shop"], schema=schema).tables["shop.orders"]
print(polars.read_delta(table).select("_id", "state", "lines"))
letters = polars.read_delta(f"{lake}/_dead_letters/shop/orders")
print(letters.select("_path", "_reason").rows())

# %% [markdown]
# A change in the collection is a change in the table. The repaired document is no dead letter any more.

# %%
orders.update_one({"_id": 3}, {"$set": {"lines": []}})
orders.update_one({"_id": 2}, {"$set": {"state": "paid"}})
mirror(spark, server.uri, lake, namespaces=["shop"], schema=schema)
by_state = polars.read_delta(table).group_by("state").len().sort("state")
print(by_state)

# %% [markdown]
# The same documents as the beginning of a stream: rows of the type `read`, then the changes.

# %%
reads = change_stream(spark, server.uri, "shop.orders", startingOffsets="snapshot", documentsAs="json")
reads.select("operationType", "fullDocument").show(truncate=False)
read = reads.count()

# %%
server.stop()
