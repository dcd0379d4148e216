"""Store an application's resume token between two runs: in a file, or in a document of a collection.

A token is saved after the events before it were handled, so that a crash repeats events and loses none.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import bson
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.collection import Collection

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.client.flow import Flow, run, run_async
from tailrace.client.options import Document
from tailrace.errors import CommandError, UsageError


class TokenStore(Protocol):
    """A place for one resume token."""

    def load(self) -> Document | None:
        """The token that was saved last, or None if none was saved."""

    def save(self, token: Document) -> None:
        """Replace the token; it is durable on return."""


class AsyncTokenStore(Protocol):
    """A `TokenStore` for asyncio."""

    async def load(self) -> Document | None:
        """The token that was saved last, or None if none was saved."""

    async def save(self, token: Document) -> None:
        """Replace the token; it is durable on return."""


class FileTokenStore:
    """A token in a file, one line of Extended JSON.

    The file is replaced, never changed: a reader finds the old token or the new one.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def load(self) -> Document | None:
        """The token in the file, or None if there is no file or it is empty."""
        try:
            text = self._path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the token file {self._path} cannot be read: {error}") from None
        if not text:
            return None
        try:
            kind, raw = extjson.loads_value(text)
        except CommandError as error:
            raise self._damaged(error.message) from None
        if kind != rawbson.DOCUMENT:
            raise self._damaged("it contains no document")
        token: Document = bson.decode(raw)
        return token

    def _damaged(self, reason: str) -> UsageError:
        return UsageError(f"{self._path} contains no resume token: {reason}; delete it to start from now")

    def save(self, token: Document) -> None:
        """Write and sync a new file, then rename it to the old one's name."""
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(extjson.dumps_canonical(documents.encode(dict(token))) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


class _TokenDocument:
    """The document that holds the token, read and written by flows."""

    def __init__(self, collection: Any, name: str) -> None:
        self._collection = collection
        self._filter = {"_id": name}

    def _loading(self) -> Flow[Document | None]:
        found: Mapping[str, Any] | None = yield partial(self._collection.find_one, self._filter)
        return None if found is None else found.get("token")

    def _saving(self, token: Document) -> Flow[None]:
        change = {"$set": {"token": token}}
        yield partial(self._collection.update_one, self._filter, change, upsert=True)


class CollectionTokenStore(_TokenDocument):
    """A token in field `token` of one document, saved with the collection's write concern."""

    def __init__(self, collection: Collection[dict[str, Any]], name: str) -> None:
        """``name`` is the document's `_id`."""
        super().__init__(collection, name)

    def load(self) -> Document | None:
        """The token, or None if there is no document."""
        return run(self._loading())

    def save(self, token: Document) -> None:
        """Upsert the document."""
        run(self._saving(token))


class AsyncCollectionTokenStore(_TokenDocument):
    """`CollectionTokenStore` for asyncio."""

    def __init__(self, collection: AsyncCollection[dict[str, Any]], name: str) -> None:
        """``name`` is the document's `_id`."""
        super().__init__(collection, name)

    async def load(self) -> Document | None:
        """The token, or None if there is no document."""
        return await run_async(self._loading())

    async def save(self, token: Document) -> None:
        """Upsert the document."""
        await run_async(self._saving(token))
