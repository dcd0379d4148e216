"""Stage 13: an event too large for one document becomes fragments.

Top-level fields are ordered by size and packed greedily; fields are never cut. Every fragment has the
event's token with its number, so a stream can be resumed between two of them: the event is split again, and
what the client already has is dropped.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.resume_token import Resume, compare_for_resume
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.stage import Batch, Row

SIZE_LIMIT: Final = rawbson.MAX_INTERNAL_SIZE - 8 * 1024


class SplitLargeEvent:
    """Replaces rows that are too large by fragments."""

    def __init__(self, resume: ResumePoint) -> None:
        self._resume = resume
        token = resume.token
        self._passed = None if token is None else token.fragment

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        # The token counts once more besides the event that contains it, so this size is never too large.
        limit = SIZE_LIMIT // 2
        if self._passed is None and all(len(row.raw) <= limit for row in batch.items):
            return batch
        split: list[Row] = []
        try:
            for row in batch.items:
                split += self._split(row)
        except CommandError as error:
            return batch.having(split, error)
        return batch.having(split)

    def _split(self, row: Row) -> list[Row]:
        passed = self._fragments_passed(row)
        if len(row.raw) + len(row.token_document) <= SIZE_LIMIT:
            if passed is not None:
                raise CommandError(
                    ErrorCode.ChangeStreamFatalError,
                    "the event that the resume token names is no longer large enough to be split",
                )
            return [row]
        fragments = split_row(row)
        if passed is None:
            return fragments
        if passed >= len(fragments):
            raise CommandError(
                ErrorCode.ChangeStreamFatalError,
                f"the resume token names fragment {passed + 1} of an event that has {len(fragments)} now",
            )
        return fragments[passed:]

    def _fragments_passed(self, row: Row) -> int | None:
        """How many fragments of this row lie before the one the client resumed after."""
        token = self._resume.token
        if self._passed is None or token is None:
            return None
        outcome = compare_for_resume(row.token, token)
        if outcome is Resume.NEEDS_SPLIT:
            return token.fragment
        if outcome is Resume.SURPASSED:
            self._passed = None
        return None


def split_row(row: Row) -> list[Row]:
    """All fragments of one event."""
    fields = sorted(
        (end - start + len(name) + 2, name, row.raw[start - len(name) - 2 : end])
        for _, name, start, end in rawbson.elements(row.raw)
        if name != b"_id"
    )
    if not fields:
        raise CommandError(
            7182502, "an event too large for one document has no field that could be split off"
        )
    groups: list[list[bytes]] = []
    position = 0
    while position < len(fields):
        header = _fragment(row, len(groups), 0, [])
        size = len(header.raw)
        room = SIZE_LIMIT - len(header.token_document)
        group: list[bytes] = []
        while position < len(fields) and (not group or size + fields[position][0] <= room):
            group.append(fields[position][2])
            size += fields[position][0]
            position += 1
        if size > room:
            name = fields[position - 1][1].decode()
            raise CommandError(
                7182500, f"the field {name} alone is too large for a fragment of a split event"
            )
        groups.append(group)
    return [_fragment(row, number, len(groups), group) for number, group in enumerate(groups)]


def _fragment(row: Row, number: int, count: int, fields: list[bytes]) -> Row:
    fragment = Row(row.event, row.version, b"", number)
    pack = rawbson.INT32_LE.pack
    place = rawbson.document(b"\x10fragment\0" + pack(number + 1), b"\x10of\0" + pack(count))
    fragment.raw = rawbson.document(
        rawbson.element(rawbson.DOCUMENT, b"_id", fragment.token_document),
        rawbson.element(rawbson.DOCUMENT, b"splitEvent", place),
        *fields,
    )
    return fragment
