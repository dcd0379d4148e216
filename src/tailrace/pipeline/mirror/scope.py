"""Which collections are mirrored, and where their tables are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from tailrace.errors import UsageError
from tailrace.sources.deployments.collections import is_ordinary


@dataclass(frozen=True, slots=True)
class MirrorScope:
    """Collections (``db.coll``) and whole databases (``db``); nothing means everything.

    >>> scope = MirrorScope.of(["shop", "stock.items"])
    >>> [scope.has(name) for name in ("shop.orders", "stock.items", "stock.places", "shop.system.views")]
    [True, True, False, False]
    """

    databases: frozenset[str]
    namespaces: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        databases, namespaces = set(), set()
        for name in names:
            database, dot, collection = name.partition(".")
            if not database or (dot and not collection):
                raise UsageError(f"{name!r} is no namespace; write DATABASE or DATABASE.COLLECTION")
            if collection in ("", "*"):
                databases.add(database)
            elif is_ordinary(name):
                namespaces.add(name)
            else:
                raise UsageError(f"{name} is a collection of the system, which cannot be mirrored")
        return cls(frozenset(databases), frozenset(namespaces))

    def has(self, namespace: str) -> bool:
        if not is_ordinary(namespace):
            return False
        if not self.databases and not self.namespaces:
            return True
        return namespace in self.namespaces or namespace.partition(".")[0] in self.databases

    def database_names(self) -> set[str] | None:
        """The databases to list; None for all."""
        if not self.databases and not self.namespaces:
            return None
        return {*self.databases, *(name.partition(".")[0] for name in self.namespaces)}


def table_place(root: str, namespace: str) -> str:
    """The folder of a collection's table below that of the mirror.

    >>> table_place("lake", "shop.orders"), table_place("s3://bucket/lake", "shop.a/b")
    ('lake/shop/orders', 's3://bucket/lake/shop/a%2Fb')
    """
    database, _, collection = namespace.partition(".")
    return f"{root}/{_name(database)}/{_name(collection)}"


def _name(text: str) -> str:
    """A folder's name; readers of Delta ignore those that begin with an underscore or a dot."""
    quoted = quote(text, safe=" $-+@")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[0] in "_." else quoted
