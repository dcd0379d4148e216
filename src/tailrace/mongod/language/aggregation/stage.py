"""The type of a compiled stage, and the properties of each kind of stage."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tailrace.mongod.language.aggregation.output import Output
from tailrace.mongod.language.aggregation.rows import Rows

if TYPE_CHECKING:
    from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope

Stage: TypeAlias = Callable[[Rows], Rows]
"""Rows in, rows out, lazily. A stage that needs all rows first collects them when its first result is
requested, and passes pauses on meanwhile. How much it may hold is limited by `StageScope.memory`."""

HOLDERS: Final = ("$facet", "$lookup", "$unionWith")
"""The stages that contain pipelines; each refuses some stages there, with its own code"""


Check: TypeAlias = Callable[[str, Any, "PipelineContext"], None]
"""Takes a stage's name, its specification and the pipeline's context; raises for what is found wrong before
any stage is compiled."""


class Place(Enum):
    """Where in a pipeline a stage may be."""

    ANYWHERE = "anywhere"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class StageType:
    """The properties of a kind of stage."""

    compile: Callable[[str, Any, "StageScope"], Stage | Output]
    """Takes the name, the specification and the scope; raises for a wrong specification.

    A stage that writes compiles to the description of its target.
    """
    check: Check | None = None
    """What is checked of all stages of a pipeline before the first of them is compiled"""
    place: Place = Place.ANYWHERE
    refused_in: frozenset[str] = frozenset()
    """Which of `HOLDERS` refuse it"""
    in_transaction: bool = True
    brings_documents: bool = False
    """Whether it is a first stage with its own documents instead of a collection's"""
    is_collectionless: bool = False
    """Whether it runs on a database, with ``{aggregate: 1}``, and not on a collection"""
