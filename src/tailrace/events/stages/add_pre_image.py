"""Stage 7: the document as it was before the change, from the pre-image store."""

from collections.abc import Mapping

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.pre_image_key import has_pre_image, pre_image_of
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.render import append_fields
from tailrace.events.stages.stage import Batch, Row


def find_pre_image(event: ChangeEvent, lookups: Lookups) -> bytes | None:
    """Return the document before this event: the image it has, or what the look-up finds."""
    if event.pre_image is not None:
        return event.pre_image
    return lookups.pre_image(*pre_image_of(event))


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
        for index, row in enumerate(batch.items):
            event = row.event
            if not has_pre_image(event) or event.document_key is None:
                continue
            try:
                image = find_pre_image(event, self._lookups[event.shard])
            except CommandError as error:
                return batch.having(batch.items[:index], error)
            if image is None and self._required:
                return batch.having(batch.items[:index], image_missing("pre-image", event))
            row.raw = append_fields(row.raw, image_element(b"fullDocumentBeforeChange", image))
        return batch
