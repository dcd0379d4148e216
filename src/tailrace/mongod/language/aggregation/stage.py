"""What a stage of a pipeline is, and what is known of each kind before it is compiled."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tailrace.mongod.language.aggregation.output import Output
from tailrace.mongod.language.aggregation.rows import Rows

if TYPE_CHECKING:
    from tailrace.mongod.language.aggregation.scope import StageScope

Stage: TypeAlias = Callable[[Rows], Rows]
"""Rows in, rows out, lazily. A stage that has to see all rows first collects them when its first result is
asked for, and hands pauses on meanwhile. It holds what it collects in memory: there is no limit at which it
would fail, as a server has one of 100 MB, and nothing is ever written to disk."""

HOLDERS: Final = ("$facet", "$lookup", "$unionWith")
"""The stages that have pipelines inside; each refuses some stages there, with a code of its own."""


class Place(Enum):
    """Where in a pipeline a stage may stand."""

    ANYWHERE = "anywhere"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class StageType:
    """A kind of stage."""

    compile: Callable[[str, Any, "StageScope"], Stage | Output]
    """Gets the name, the specification and the scope; everything wrong with a specification fails here.

    A stage that writes compiles to the description of where it writes to.
    """
    place: Place = Place.ANYWHERE
    refused_in: frozenset[str] = frozenset()
    """Which of `HOLDERS` do not take it."""
    in_transaction: bool = True
    brings_documents: bool = False
    """Whether it stands first and has documents of its own instead of a collection's."""
    is_collectionless: bool = False
    """Whether it is asked of a database, with ``{aggregate: 1}``, and not of a collection."""
