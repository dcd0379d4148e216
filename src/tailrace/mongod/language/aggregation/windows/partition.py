"""The input of a window function: the documents with one value of ``partitionBy``, sorted by ``sortBy``."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions import Expression
from tailrace.query.expressions.field_path import walk
from tailrace.query.missing import MISSING
from tailrace.query.sorting import Ordering


class Documents(Protocol):
    """The documents of a partition; they may be in a file."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Document]: ...


class Partition:
    """The sorted documents of a partition, with cached values."""

    def __init__(self, documents: Documents, ordering: Ordering | None, scope: StageScope) -> None:
        self.documents = documents
        self._ordering = ordering
        self._scope = scope

    def __len__(self) -> int:
        return len(self.documents)

    def evaluate(self, expression: Expression) -> list[Any]:
        """An expression's value for each document."""
        environment = self._scope.environment
        return [expression(environment(document)) for document in self.documents]

    @cached_property
    def sort_values(self) -> list[Any]:
        """The values of the single sort field; null where it is missing."""
        assert self._ordering is not None, "checked when the function was compiled"
        (path,) = self._ordering.paths
        found = (walk(document, path.components) for document in self.documents)
        return [None if value is MISSING else value for value in found]

    @cached_property
    def sort_keys(self) -> list[Any]:
        """The sort keys of the documents; equal keys are ties."""
        assert self._ordering is not None, "checked when the function was compiled"
        return [self._ordering.natural_key(document) for document in self.documents]
