"""Helpers for tests of pipelines: collections in memory, results as documents, errors as codes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from tailrace.bson.compare import equal
from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import PAUSE, Pause, PipelineContext, compile_pipeline

Documents = Sequence[Any]


class Collections:
    """Collections of the database `shop`; counts how often each is read."""

    def __init__(
        self, collections: Mapping[str, Documents] | None = None, indexes: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.collections = dict(collections or {})
        self.indexes = frozenset(indexes)
        self.scans: list[str] = []
        self.index_reads: list[tuple[str, str, Any]] = []

    def documents(self, database: str, collection: str) -> Iterator[bytes | Pause]:
        assert database == "shop"
        self.scans.append(collection)
        for document in self.collections.get(collection, ()):
            yield PAUSE
            yield encode(document)

    def equal_documents(
        self, database: str, collection: str, path: str, value: Any
    ) -> Iterable[bytes | Pause] | None:
        assert database == "shop"
        if (collection, path) not in self.indexes:
            return None
        self.index_reads.append((collection, path, value))
        documents = self.collections[collection]
        return [PAUSE, *(encode(document) for document in documents if equal(document.get(path), value))]

    def source(
        self, name: str, spec: Any, database: str, collection: str | None
    ) -> Iterator[dict[str, Any] | Pause]:
        yield PAUSE
        yield {"name": name, "spec": spec, "database": database, "collection": collection}


def results(
    stages: Sequence[Any],
    documents: Documents = (),
    *,
    foreign: Mapping[str, Documents] | Collections | None = None,
    collection: str | None = "here",
    **options: Any,
) -> list[dict[str, Any]]:
    """The results of a pipeline; the input has pauses, and the output may have pauses anywhere."""
    services = foreign if isinstance(foreign, Collections) else Collections(foreign)
    context = PipelineContext("shop", collection, services=services, **options)
    pipeline = compile_pipeline(stages, context)
    source = (item for document in documents for item in (PAUSE, encode(document)))
    return [decode(raw) for raw in pipeline.run(source) if raw is not PAUSE]


def assert_results(stages: Sequence[Any], documents: Documents, expected: Documents, **options: Any) -> None:
    """Equal, with the types of numbers, and with fields in the same order at every depth."""
    assert repr(results(stages, documents, **options)) == repr(list(expected))


def assert_code(stages: Sequence[Any], code: int, documents: Documents = (), **options: Any) -> None:
    with pytest.raises(CommandError) as caught:
        results(stages, documents, **options)
    assert caught.value.code == code, caught.value
