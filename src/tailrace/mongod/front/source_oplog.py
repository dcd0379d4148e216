"""The source's oplog, as a history needs it that is built from it."""

from tailrace.log.oplogs import StoreOplog


class SourceOplog(StoreOplog):
    """Nothing can be held: the source's oplog has to be larger than the history lags."""

    def resume(self, through: int) -> None:
        """Do nothing: entries cannot be held."""

    def hold(self, through: int) -> None:
        """Do nothing: entries cannot be held."""
