"""Stage 7: the document as it was before the change, from the pre-image store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.pre_image_key import has_pre_image, pre_image_of
from tailrace.events.stages.lookups import Lookups, PreImageLookup, PreImageQuestion
from tailrace.events.stages.render import append_fields
from tailrace.events.stages.stage import Batch, Row


class PreImages:
    """The documents before some events: the images that events have, or what is looked up for all at once."""

    def __init__(self, events: Iterable[ChangeEvent], lookups: Mapping[str, Lookups]) -> None:
        without: dict[str, list[ChangeEvent]] = defaultdict(list)
        for event in events:
            if event.pre_image is None:
                without[event.shard].append(event)
        self._rebuilt: dict[ChangeEvent, bytes] = {}
        self._find: dict[str, PreImageLookup] = {}
        for shard, changes in without.items():
            needed: list[PreImageQuestion] = []
            for event, image in zip(changes, lookups[shard].rebuilt(changes), strict=True):
                if image is None:
                    needed.append(pre_image_of(event))
                else:
                    self._rebuilt[event] = image
            self._find[shard] = lookups[shard].expecting_pre_images(needed)

    def of(self, event: ChangeEvent) -> bytes | None:
        """Return the document before one of them; None if it is not stored."""
        image = event.pre_image or self._rebuilt.get(event)
        return self._find[event.shard](*pre_image_of(event)) if image is None else image


def image_element(name: bytes, image: bytes | None) -> bytes:
    """Return the event field that shows an image, or null."""
    if image is None:
        return rawbson.element(rawbson.NULL, name, b"")
    return rawbson.element(rawbson.DOCUMENT, name, image)


def image_missing(what: str, event: ChangeEvent) -> CommandError:
    """Return the error of a required image that is missing."""
    kind, extras = event.kind, event.entry.extras
    # A retryable write has a number too, but its event does not show it.
    has_number = extras.in_apply_ops and extras.txn_number is not None
    in_transaction = f" in transaction {extras.txn_number}" if has_number else ""
    return CommandError(
        ErrorCode.NoMatchingDocument,
        f"the required {what} of the {kind.operation_type} event of {kind.database}.{kind.collection} at "
        f"{in_words(event.entry.ts)}{in_transaction} is not available",
    )


class AddPreImage:
    """Adds `fullDocumentBeforeChange` to updates, replacements and deletes."""

    def __init__(self, lookups: Mapping[str, Lookups], *, required: bool) -> None:
        self._lookups = lookups
        self._required = required

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        images = PreImages((row.event for row in batch.items if _is_shown(row.event)), self._lookups)
        for index, row in enumerate(batch.items):
            event = row.event
            if not _is_shown(event):
                continue
            try:
                image = images.of(event)
            except CommandError as error:
                return batch.having(batch.items[:index], error)
            if image is None and self._required:
                return batch.having(batch.items[:index], image_missing("pre-image", event))
            row.raw = append_fields(row.raw, image_element(b"fullDocumentBeforeChange", image))
        return batch


def _is_shown(event: ChangeEvent) -> bool:
    return has_pre_image(event) and event.document_key is not None
