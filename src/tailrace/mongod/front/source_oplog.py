"""The source's oplogs, as a history needs them that is built from them."""

from tailrace.log.oplogs import Oplogs, ShardOplogs, StoreOplog


class _NotHeld(Oplogs):
    """Nothing can be held: the source's oplog has to be larger than the history lags."""

    def resume(self, through: int) -> None:
        """Do nothing: entries cannot be held."""

    def hold(self, through: int) -> None:
        """Do nothing: entries cannot be held."""


class SourceOplog(_NotHeld, StoreOplog):
    """That of a replica set."""


class SourceShardOplogs(_NotHeld, ShardOplogs):
    """Those of the shards of a cluster."""
