"""Read the events of a stream, and compute the documents that result from them."""

from collections.abc import Iterable
from typing import Any

from tailrace.testing.in_thread import Document


def drained(stream: Any) -> list[Document]:
    """The events that a stream has now."""
    found: list[Document] = []
    while (event := stream.try_next()) is not None:
        found.append(event)
    return found


def folded(events: Iterable[Document]) -> dict[Any, Document]:
    """The documents that result from inserts, updates and deletes, by their ids; none is inserted twice."""
    documents: dict[Any, Document] = {}
    for event in events:
        identity = event["documentKey"]["_id"]
        if event["operationType"] == "insert":
            assert identity not in documents, event
            documents[identity] = event["fullDocument"]
        elif event["operationType"] == "update":
            documents[identity].update(event["updateDescription"]["updatedFields"])
        else:
            del documents[identity]
    return documents
