"""Stage 8: the document after the change, for updates.

`updateLookup` shows the document as it is now, found by the whole document key; `whenAvailable` and
`required` show it as it was right after the update, computed from the pre-image and the logged diff.
"""

from collections.abc import Mapping

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout import event as events
from tailrace.events.layout.fields import Shape
from tailrace.events.stages.add_pre_image import find_pre_image, image_element, image_missing
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.stage import Batch, Row
from tailrace.events.update_diff import diff_of, image_after


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
        for index, row in enumerate(batch.items):
            event = row.event
            if event.update is None:
                continue
            try:
                image = self._current(event) if self._mode == "updateLookup" else self._computed(event)
            except CommandError as error:
                return batch.having(batch.items[:index], error)
            if image is None and self._mode == "required":
                return batch.having(batch.items[:index], image_missing("post-image", event))
            element = image_element(b"fullDocument", image)
            row.raw = events.layout.with_post_image(row.raw, element, self._shape)
        return batch

    def _current(self, event: ChangeEvent) -> bytes | None:
        kind = event.kind
        namespace = f"{kind.database}.{kind.collection}"
        uuid = kind.uuid if self._match_uuid else None
        return self._lookups[event.shard].document(namespace, event.document_key or rawbson.EMPTY, uuid)

    def _computed(self, event: ChangeEvent) -> bytes | None:
        before = find_pre_image(event, self._lookups[event.shard])
        if before is None:
            return None
        return image_after(before, diff_of(event.update or rawbson.EMPTY))
