"""The namespace of a stream in the arguments: a database, or a collection in it."""

from tailrace.cli.json_arguments import utf8_argument
from tailrace.errors import UsageError


def namespace_argument(option: str, text: str) -> tuple[str, str | None]:
    """Database and collection; several collections are refused with the way to watch them.

    >>> namespace_argument("--ns", "shop.orders"), namespace_argument("--ns", "shop")
    (('shop', 'orders'), ('shop', None))
    """
    database, dot, collection = utf8_argument(option, text).partition(".")
    if "," in text:
        names = ", ".join(f'"{part.rpartition(".")[2].strip()}"' for part in (collection or text).split(","))
        raise UsageError(
            f"{option} takes one collection, not {text}; for several watch the database {database} with "
            f"""--pipeline '[{{"$match": {{"ns.coll": {{"$in": [{names}]}}}}}}]'"""
        )
    return database, collection if dot else None
