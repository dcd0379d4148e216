"""Transactions that a running cluster is about to commit: some shards have, others have not.

`whole_transactions.py` says why a batch must not end then. Here the rest of the oplogs is not written yet, so
the shards are asked which transactions they hold prepared.
"""

from collections.abc import Sequence
from typing import Any, Final

from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.sources.batch_boundaries import COMMITS
from tailrace.sources.deployments.clients import Client

_SHOWN: Final = {"o.commitTimestamp": 1}


def torn_at(time: int, shards: Sequence[Client]) -> list[int]:
    """The commit timestamps of the transactions that a batch would tear apart if it ended at this time.

    Every shard has to have promised the time.
    """
    # The order matters: a transaction that is not found prepared has been committed by then, if it ever is.
    prepared = [(shard, found) for shard in shards for found in _prepared(shard, time)]
    late = to_timestamp(time)
    query = {"ts": {"$gt": late}, **COMMITS.query(), "o.commitTimestamp": {"$lte": late}}
    torn = [decided for shard in shards for decided in _commit_times(shard, query)]
    for holder, transaction in prepared:
        committed = {
            "ts": {"$gte": transaction["lastWriteOpTime"]["ts"], "$lte": late},
            **COMMITS.query(),
            "lsid": transaction["_id"],
            "txnNumber": transaction["txnNum"],
            "o.commitTimestamp": {"$exists": True},
        }
        for shard in shards:
            if shard is not holder:
                torn += _commit_times(shard, committed)
    return torn


def _prepared(shard: Client, time: int) -> list[dict[str, Any]]:
    query = {"state": "prepared", "lastWriteOpTime.ts": {"$lte": to_timestamp(time)}}
    return list(shard.config.transactions.find(query))


def _commit_times(shard: Client, query: dict[str, Any]) -> list[int]:
    found = shard.local["oplog.rs"].find(query, _SHOWN)
    return [from_timestamp(entry["o"]["commitTimestamp"]) for entry in found]
