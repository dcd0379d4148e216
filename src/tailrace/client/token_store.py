"""Where an application keeps its position between two runs: a file, or a document of a collection.

A store holds one resume token. It is written after the events before it were handled, so that a crash
repeats events and loses none.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import bson
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.collection import Collection

from tailrace.bsonio import documents, extjson
from tailrace.bsonio import raw as rawbson
from tailrace.client.options import Document
from tailrace.errors import CommandError, UsageError


class TokenStore(Protocol):
    """Keeps the newest token."""

    def load(self) -> Document | None:
        """The token that was saved last, or None before the first one."""

    def save(self, token: Document) -> None:
        """Replace the token; it is durable on return."""


class AsyncTokenStore(Protocol):
    """The same for asyncio."""

    async def load(self) -> Document | None:
        """The token that was saved last, or None before the first one."""

    async def save(self, token: Document) -> None:
        """Replace the token; it is durable on return."""


class FileTokenStore:
    """A token in a file of its own, one line of Extended JSON.

    The file is replaced, never changed: whoever reads it finds the old token or the new one.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def load(self) -> Document | None:
        """The token in the file; None if there is no file, or it is empty."""
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
            raise self._damaged("there is no document in it")
        token: Document = bson.decode(raw)
        return token

    def _damaged(self, reason: str) -> UsageError:
        return UsageError(f"{self._path} holds no resume token: {reason}; remove it to start anew")

    def save(self, token: Document) -> None:
        """Write a file beside it, sync that, and put it in the place of the old one."""
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(extjson.dumps_canonical(documents.encode(dict(token))) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


class CollectionTokenStore:
    """A token in a collection: the document with this `_id`, field `token`."""

    def __init__(self, collection: Collection[dict[str, Any]], name: str) -> None:
        self._collection = collection
        self._name = name

    def load(self) -> Document | None:
        """The token in the document, None if there is none."""
        return _token_in(self._collection.find_one({"_id": self._name}))

    def save(self, token: Document) -> None:
        """Upsert the document, with the collection's write concern."""
        self._collection.update_one({"_id": self._name}, {"$set": {"token": token}}, upsert=True)


class AsyncCollectionTokenStore:
    """The same for asyncio."""

    def __init__(self, collection: AsyncCollection[dict[str, Any]], name: str) -> None:
        self._collection = collection
        self._name = name

    async def load(self) -> Document | None:
        """The token in the document, None if there is none."""
        return _token_in(await self._collection.find_one({"_id": self._name}))

    async def save(self, token: Document) -> None:
        """Upsert the document, with the collection's write concern."""
        await self._collection.update_one({"_id": self._name}, {"$set": {"token": token}}, upsert=True)


def _token_in(found: Mapping[str, Any] | None) -> Document | None:
    return None if found is None else found.get("token")
