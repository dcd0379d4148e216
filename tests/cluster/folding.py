"""Documents as the events of a stream tell of them."""

from collections.abc import Iterable
from typing import Any

from tailrace.testing.in_thread import Document


def folded(events: Iterable[Document]) -> dict[Any, Document]:
    """The documents that inserts, updates and deletes leave, by their ids; none is inserted twice."""
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
