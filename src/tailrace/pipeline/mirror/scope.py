"""Which collections are mirrored, and where their tables are."""

from collections.abc import Iterable
from urllib.parse import quote

from tailrace.errors import UsageError
from tailrace.namespaces import NamespaceChoice
from tailrace.sources.deployments.collections import is_ordinary


def mirrored_namespaces(include: Iterable[str] = (), exclude: Iterable[str] = ()) -> NamespaceChoice:
    """What is mirrored; `UsageError` if a pattern is none, or names what belongs to the system.

    >>> str(mirrored_namespaces(["shop", "stock.item*"], ["shop.audit"]))
    'shop, stock.item* except shop.audit'
    """
    choice = NamespaceChoice.of(include, exclude)
    for pattern in choice.include:
        if pattern.is_name and not is_ordinary(pattern.namespace or f"{pattern.database}.any"):
            noun = "collection" if pattern.namespace else "database"
            raise UsageError(f"{pattern.text} is a {noun} of the system, which cannot be mirrored")
    return choice


def is_mirrored(choice: NamespaceChoice, namespace: str) -> bool:
    """Whether a collection is chosen, and is one of users.

    >>> choice = mirrored_namespaces(["shop", "stock.items"])
    >>> names = ("shop.orders", "stock.items", "stock.places", "shop.system.views")
    >>> [is_mirrored(choice, name) for name in names]
    [True, True, False, False]
    """
    return is_ordinary(namespace) and choice.keeps(*namespace.split(".", 1))


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
