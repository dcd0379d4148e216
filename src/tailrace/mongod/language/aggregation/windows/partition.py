"""The input of a window function: the documents with one value of ``partitionBy``, sorted by ``sortBy``."""

from functools import cached_property
from typing import Any

from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.field_path import walk
from tailrace.query.missing import MISSING
from tailrace.query.sorting import Ordering


class Partition:
    """The sorted documents of a partition, with cached values."""

    def __init__(self, documents: list[Document], ordering: Ordering | None, scope: StageScope) -> None:
        self.documents = documents
        self._ordering = ordering
        self._scope = scope

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def _environments(self) -> list[Environment]:
        return [self._scope.environment(document) for document in self.documents]

    def evaluate(self, expression: Expression) -> list[Any]:
        """An expression's value for each document."""
        return [expression(env) for env in self._environments]

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
