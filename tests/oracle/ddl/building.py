"""What hand-written DDL commands are built of; each subject runs in databases of its own.

A command is a document, or a pair of a document and the database it runs in: `a` (the default), `b`, `admin`.
Names of full namespaces contain `{a}` and `{b}`, which stand for these databases.
"""

from typing import Any, Final

from bson import Binary, Decimal128, Int64, MinKey, Regex

from tests.oracle.comparison import Document

WRONG: Final[tuple[Any, ...]] = (
    1, 0, -1, 1.5, Int64(3), Decimal128("1"), "x", "", True, None, {}, {"a": 1}, {"$a": 1}, [], [1], [{}],
    MinKey(), Regex("x"), Binary(b"x" * 16, 4),
)  # fmt: skip
"""Values for a field: for most fields, most of them are of a wrong type."""


def index(key: Document, name: str = "i", **options: Any) -> Document:
    """`createIndexes` of one index on the collection `c`."""
    return {"createIndexes": "c", "indexes": [{"key": key, "name": name, **options}]}


def filled(name: str = "c", *documents: Document) -> Document:
    return {"insert": name, "documents": list(documents) or [{"_id": number} for number in range(3)]}


def with_wrong(command: Document, *fields: str, after: tuple[Document, ...] = ()) -> list[Document]:
    """The command with each wrong value in each field, and what is to follow each of them."""
    found: list[Document] = []
    for field in fields:
        for value in WRONG:
            found += [{**command, field: value}, *after]
    return found
