"""Look up stored pre-images in a running deployment."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from bson import MaxKey
from pymongo.read_concern import ReadConcern

from tailrace.events.pre_image_key import image_in, pre_image_identifier, pre_image_key, pre_image_key_of
from tailrace.events.stages.lookups import PreImageQuestion
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, documents_of, session_at
from tailrace.sources.deployments.driver_errors import driver_errors

_MAJORITY: Final = ReadConcern("majority")
_NEAR: Final = 10 << 32
"""Ten seconds of cluster time: images that are farther apart are not read with one scan."""


class StoredPreImages:
    """The pre-images of one shard for the events of an interval.

    Events need them in the order in which they are stored, so one cursor for each collection reads them all.
    An image from before the interval, of a transaction that began there, needs a second query.
    """

    def __init__(self, client: Client, uri: str, after: int, through: int) -> None:
        self._client = client
        self._uri = uri
        self._after = after
        self._through = through
        self._readers: dict[bytes, _ImageReader] = {}

    def find(self, uuid: bytes, ts: int, apply_ops_index: int) -> bytes | None:
        """Return the document before an operation of the entry at ``ts``; None if it is not stored."""
        reader = self._readers.get(uuid)
        if reader is None:
            reader = self._readers[uuid] = _ImageReader(self._in_interval(uuid))
        key = pre_image_key(uuid, ts, apply_ops_index)
        if ts <= self._after or key < reader.asked:
            return self._single(uuid, ts, apply_ops_index)
        return reader.find(key)

    def find_all(self, wanted: Collection[PreImageQuestion]) -> dict[PreImageQuestion, bytes]:
        """Return the documents before some operations, those that are stored."""
        by_key = {pre_image_key(*question): question for question in wanted}
        found: dict[PreImageQuestion, bytes] = {}
        for run in _runs(sorted(wanted)):
            # The range bounds the scan: servers before 7.0 scan the whole collection for `$in`.
            among = {
                "$gte": pre_image_identifier(*run[0]),
                "$lte": pre_image_identifier(*run[-1]),
                "$in": [pre_image_identifier(*question) for question in run],
            }
            for raw in self._read({"_id": among}):
                image = image_in(raw)
                if image is not None:
                    found[by_key[pre_image_key_of(raw)]] = image
        return found

    def _in_interval(self, uuid: bytes) -> Iterator[bytes]:
        first = pre_image_identifier(uuid, self._after + 1, 0)
        last = pre_image_identifier(uuid, self._through, MaxKey())
        return self._read({"_id": {"$gte": first, "$lte": last}})

    def _single(self, uuid: bytes, ts: int, index: int) -> bytes | None:
        for raw in self._read({"_id": pre_image_identifier(uuid, ts, index)}):
            return image_in(raw)
        return None

    def _read(self, query: dict[str, Any]) -> Iterator[bytes]:
        images = self._client.config.get_collection("system.preimages", read_concern=_MAJORITY)
        with (
            driver_errors(self._uri, rights.PRE_IMAGES),
            session_at(self._client, self._through) as session,
        ):
            yield from documents_of(images.find_raw_batches(query, sort=[("_id", 1)], session=session))


def _runs(wanted: Sequence[PreImageQuestion]) -> Iterator[Sequence[PreImageQuestion]]:
    """Sorted questions in pieces of one collection each, without long gaps."""
    first = 0
    for place in range(1, len(wanted) + 1):
        if place < len(wanted):
            (uuid, time, _), (before, time_before, _) = wanted[place], wanted[place - 1]
            if uuid == before and time - time_before <= _NEAR:
                continue
        yield wanted[first:place]
        first = place


class _ImageReader:
    """A cursor on the images of one collection."""

    def __init__(self, images: Iterator[bytes]) -> None:
        self._images = images
        self._next: tuple[bytes, bytes] | None = None
        self.asked = b""
        """The largest key asked for so far."""

    def find(self, key: bytes) -> bytes | None:
        self.asked = key
        while self._next is None or self._next[0] < key:
            raw = next(self._images, None)
            if raw is None:
                return None
            self._next = pre_image_key_of(raw), raw
        found, raw = self._next
        return image_in(raw) if found == key else None
