"""How the rows of a collection's table are laid out.

The live rows, one for each document that exists, are sorted by `_key`, and their files have disjoint ranges
of keys. Past rows (`lake/columns/kinds.py`) are in files of their own, which changes do not touch. So a batch
costs the same for every kind of table, however long its past is.
"""

from typing import Final

from tailrace.lake.columns.evolve import Policy
from tailrace.lake.columns.kinds import TableKind, reserved_names

FORMAT: Final = 1
"""Counts changes of the columns or of what they hold"""


def policy_of(kind: TableKind) -> Policy:
    """How the columns of a table of a kind are chosen."""
    return Policy(reserved=reserved_names(kind))


def dead_letters_place(place: str) -> str:
    """Where the dead letters of the table at a place are: below the mirror, beside the databases.

    >>> dead_letters_place("s3://bucket/lake/shop/orders")
    's3://bucket/lake/_dead_letters/shop/orders'
    """
    root, database, collection = place.rsplit("/", 2)
    return f"{root}/_dead_letters/{database}/{collection}"
