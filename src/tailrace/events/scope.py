"""What a change stream watches: one collection, one database, or the whole cluster.

A stream is opened by a command on a database; `Scope.of` turns that command's target into a scope. The names
are checked here once, with the server's code 73.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import ClusterTime, in_words
from tailrace.namespaces import KeptPeriods, NamespaceChoice

CLUSTER_DATABASE: Final = "admin"
INTERNAL_DATABASES: Final = frozenset({"admin", "config", "local"})
COLLECTIONLESS: Final = "$cmd.aggregate"
"""The collection in the cursor namespace of a database or cluster stream."""

_MAX_DATABASE_BYTES: Final = 63
_FORBIDDEN_IN_DATABASE: Final = frozenset('/\\. "\0')
"""A name with a dollar sign can be watched, but nothing can be written there."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A collection's full name.

    >>> Namespace.parse("shop.orders.archive")
    Namespace(db='shop', coll='orders.archive')
    """

    db: str
    coll: str

    def __post_init__(self) -> None:
        _check_database(self.db)
        _check_collection(self.coll)

    @classmethod
    def parse(cls, text: str) -> "Namespace":
        """Read ``db.coll``; the first dot separates."""
        db, _, coll = text.partition(".")
        return cls(db, coll)

    def __str__(self) -> str:
        return f"{self.db}.{self.coll}"


class ScopeKind(Enum):
    """The three kinds of streams."""

    COLLECTION = "collection"
    DATABASE = "database"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Scope:
    """What one stream watches; for the cluster, ``db`` is the database the command runs on.

    >>> Scope.parse_ns("shop.orders").cursor_ns, Scope.cluster().cursor_ns
    ('shop.orders', 'admin.$cmd.aggregate')
    """

    kind: ScopeKind
    db: str
    coll: str | None = None

    def __post_init__(self) -> None:
        if (self.kind is ScopeKind.COLLECTION) != (self.coll is not None):
            raise ValueError("a collection scope, and no other, names a collection")
        _check_database(self.db)
        if self.coll is not None:
            _check_collection(self.coll)

    @classmethod
    def collection(cls, db: str, coll: str) -> "Scope":
        """One collection."""
        return cls(ScopeKind.COLLECTION, db, coll)

    @classmethod
    def database(cls, db: str) -> "Scope":
        """All collections of one database."""
        return cls(ScopeKind.DATABASE, db)

    @classmethod
    def cluster(cls) -> "Scope":
        """All collections of all databases."""
        return cls(ScopeKind.CLUSTER, CLUSTER_DATABASE)

    @classmethod
    def of(cls, db: str, coll: str | None = None, *, all_changes_for_cluster: bool = False) -> "Scope":
        """Return the scope of a command on ``db`` that names ``coll``, or no collection.

        `ChangeStreamOptions.parse` refuses the flag on any other database, or beside a collection.
        """
        if coll is not None:
            return cls.collection(db, coll)
        if all_changes_for_cluster and db == CLUSTER_DATABASE:
            return cls.cluster()
        return cls.database(db)

    @classmethod
    def parse_ns(cls, text: str) -> "Scope":
        """Read ``db`` or ``db.coll``.

        >>> Scope.parse_ns("shop").kind
        <ScopeKind.DATABASE: 'database'>
        """
        db, dot, coll = text.partition(".")
        return cls.of(db, coll if dot else None)

    @property
    def namespace(self) -> Namespace | None:
        """The watched collection, if it is only one."""
        return None if self.coll is None else Namespace(self.db, self.coll)

    @property
    def cursor_ns(self) -> str:
        """The namespace a cursor on this stream reports."""
        return f"{self.db}.{self.coll or COLLECTIONLESS}"

    def __str__(self) -> str:
        if self.kind is ScopeKind.CLUSTER:
            return "the cluster"
        return f"{self.kind.value} {self.db}" + (f".{self.coll}" if self.coll else "")


def check_kept(
    scope: Scope, kept: KeptPeriods, start: int | None, chosen: NamespaceChoice | None = None
) -> None:
    """Raise unless everything that a stream could see from a cluster time on is kept; None is from now on.

    A stream that shows only what is ``chosen`` needs no more than that.
    """

    def keeps(choice: NamespaceChoice) -> bool:
        if chosen is not None:
            return chosen.is_within(choice)
        if scope.coll is not None:
            return choice.keeps(scope.db, scope.coll)
        return choice.keeps_all(None if scope.kind is ScopeKind.CLUSTER else scope.db)

    watched = scope if chosen is None else chosen
    since = kept.since(keeps)
    if since is None:
        raise CommandError(
            ErrorCode.CommandNotSupported,
            f"not all changes of {watched} are kept here, but those of {kept.now}; watch what is kept, or "
            "keep more with --ns and --exclude",
        )
    if start is not None and since and start <= since:
        raise CommandError(
            ErrorCode.ChangeStreamHistoryLost,
            f"the changes of {watched} are kept since {in_words(ClusterTime(since))}, and the stream begins "
            f"before that, at {in_words(ClusterTime(start))}; begin it later",
        )


def _check_database(name: str) -> None:
    if not name:
        raise _invalid("a database name must not be empty")
    if len(name.encode()) > _MAX_DATABASE_BYTES:
        raise _invalid(f"the database name {name!r} is longer than {_MAX_DATABASE_BYTES} bytes")
    if wrong := _FORBIDDEN_IN_DATABASE.intersection(name):
        raise _invalid(f"the database name {name!r} must not contain {min(wrong)!r}")


def _check_collection(name: str) -> None:
    if not name:
        raise _invalid("a collection name must not be empty")
    if name.startswith(".") or "\0" in name:
        raise _invalid(f"the collection name {name!r} must not start with a dot or contain a NUL")


def _invalid(message: str) -> CommandError:
    return CommandError(ErrorCode.InvalidNamespace, message)
