"""What transactions cannot change."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import INTERNAL_DATABASES, Collection


def check_writable(collection: Collection) -> None:
    """Refuse (263) a collection that transactions cannot write to."""
    if collection.database in INTERNAL_DATABASES or collection.is_internal:
        raise not_supported(f"Cannot write to {collection.ns} in a multi-document transaction")
    if collection.name.startswith("system."):
        raise not_supported(f"Cannot write to the system collection {collection.ns} in a transaction")
    if collection.is_capped:
        raise not_supported(
            f"Collection '{collection.ns}' is a capped collection. Writes in transactions are "
            "not allowed on capped collections."
        )
    if collection.is_timeseries:
        raise not_supported(
            f"Cannot write to the time-series collection {collection.ns} in a multi-document transaction"
        )


def not_supported(reason: str) -> CommandError:
    """The error of what transactions cannot do."""
    return CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
