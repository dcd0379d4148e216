"""Positions in a collection of a MongoDB deployment, or of a Tailrace server."""

from functools import partial
from typing import Any, Final

from bson.codec_options import DEFAULT_CODEC_OPTIONS
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from tailrace.client.flow import Flow
from tailrace.client.groups.delivery import DeadLetter
from tailrace.client.groups.state import GroupState, from_document, to_document

LETTERS: Final = "dead_letters"


class CollectionGroups:
    """One document for each group, and a collection beside it for dead letters.

    Everything is majority committed: an election takes back no position.
    """

    def __init__(self, collection: Any) -> None:
        """A collection of a blocking client or an asyncio one."""
        settings: dict[str, Any] = {
            "codec_options": DEFAULT_CODEC_OPTIONS,
            "read_preference": ReadPreference.PRIMARY,
            "read_concern": ReadConcern("majority"),
            "write_concern": WriteConcern("majority"),
        }
        self._groups = collection.with_options(**settings)
        self._letters = collection[LETTERS].with_options(**settings)
        self.place: str = collection.full_name
        self.namespaces: tuple[str, ...] = (collection.full_name, f"{collection.full_name}.{LETTERS}")

    def load(self, group: str) -> Flow[GroupState | None]:
        found = yield partial(self._groups.find_one, {"_id": group})
        return None if found is None else from_document(found)

    def create(self, state: GroupState) -> Flow[bool]:
        try:
            yield partial(self._groups.insert_one, to_document(state))
        except DuplicateKeyError:
            return False
        return True

    def replace(self, state: GroupState) -> Flow[bool]:
        expected = {"_id": state.name, "version": state.version - 1}
        result = yield partial(self._groups.replace_one, expected, to_document(state))
        return bool(result.matched_count)

    def delete(self, group: str) -> Flow[None]:
        yield partial(self._groups.delete_one, {"_id": group})
        yield partial(self._letters.delete_many, {"group": group})

    def groups(self) -> Flow[list[str]]:
        found = yield self._groups.find({}, {"_id": 1}).sort("_id", 1).to_list
        return [document["_id"] for document in found]

    def bury(self, letter: DeadLetter) -> Flow[None]:
        document = {"_id": _identity(letter), **letter.to_document()}
        yield partial(self._letters.replace_one, {"_id": document["_id"]}, document, upsert=True)

    def letters(self, group: str, limit: int, after: str = "") -> Flow[list[DeadLetter]]:
        wanted = {"_id": {"$gt": {"group": group, "position": after}}, "group": group}
        found = yield self._letters.find(wanted).sort("_id", 1).limit(limit).to_list
        return [DeadLetter.from_document(document) for document in found]

    def count_letters(self, group: str) -> Flow[int]:
        count: int = yield partial(self._letters.count_documents, {"group": group})
        return count

    def discard(self, letter: DeadLetter) -> Flow[None]:
        yield partial(self._letters.delete_one, {"_id": _identity(letter)})


def _identity(letter: DeadLetter) -> dict[str, str]:
    return {"group": letter.group, "position": letter.position}
