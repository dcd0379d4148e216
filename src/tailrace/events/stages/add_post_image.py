"""Stage 8: the document after the change, for updates.

`updateLookup` shows the document as it is now, found by the whole document key; `whenAvailable` and
`required` show it as it was right after the update, computed from the pre-image and the logged diff.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout import event as events
from tailrace.events.layout.fields import Shape
from tailrace.events.stages.add_pre_image import PreImages, image_element, image_missing
from tailrace.events.stages.lookups import DocumentQuestion, Lookups
from tailrace.events.stages.stage import Batch, Row
from tailrace.events.update_diff import diff_of, image_after

_ImageOf: TypeAlias = Callable[[ChangeEvent], bytes | None]


class AddPostImage:
    """Adds `fullDocument` to updates."""

    def __init__(
        self, lookups: Mapping[str, Lookups], mode: str, shape: Shape, *, match_uuid: bool = False
    ) -> None:
        self._lookups = lookups
        self._mode = mode
        self._shape = shape
        self._match_uuid = match_uuid

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        updates = [row.event for row in batch.items if row.event.update is not None]
        if not updates:
            return batch
        image_of = (self._current if self._mode == "updateLookup" else self._computed)(updates)
        for index, row in enumerate(batch.items):
            event = row.event
            if event.update is None:
                continue
            try:
                image = image_of(event)
            except CommandError as error:
                return batch.having(batch.items[:index], error)
            if image is None and self._mode == "required":
                return batch.having(batch.items[:index], image_missing("post-image", event))
            element = image_element(b"fullDocument", image)
            row.raw = events.layout.with_post_image(row.raw, element, self._shape)
        return batch

    def _current(self, updates: Sequence[ChangeEvent]) -> _ImageOf:
        """The documents as they are now."""
        needed: dict[str, list[DocumentQuestion]] = defaultdict(list)
        for event in updates:
            needed[event.shard].append(self._question(event))
        find = {
            shard: self._lookups[shard].expecting_documents(questions) for shard, questions in needed.items()
        }
        return lambda event: find[event.shard](*self._question(event))

    def _question(self, event: ChangeEvent) -> DocumentQuestion:
        kind = event.kind
        uuid = kind.uuid if self._match_uuid else None
        return f"{kind.database}.{kind.collection}", event.document_key or rawbson.EMPTY, uuid

    def _computed(self, updates: Sequence[ChangeEvent]) -> _ImageOf:
        """The documents as they were right after the updates."""
        images = PreImages(updates, self._lookups)

        def image_of(event: ChangeEvent) -> bytes | None:
            before = images.of(event)
            if before is None:
                return None
            return image_after(before, diff_of(event.update or rawbson.EMPTY))

        return image_of
