"""Events above 16 MiB: split into fragments, resumed between them, joined again."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tests.support.deployment import Collection, Deployment
from tests.support.history import History
from tests.support.statements import StatementMaker
from tests.support.streams import Stream, operation_type, token_of

MIB = 1024 * 1024
LIMIT = 16 * MIB + 8 * 1024
SPLIT: dict[str, Any] = {"$changeStreamSplitLargeEvent": {}}
IMAGES = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}


class Writer:
    """Writes to a collection with pre-images."""

    def __init__(self) -> None:
        self.deployment = Deployment(random.Random(1))
        self.statements = StatementMaker(self.deployment.rng, self.deployment.oplog)
        self.collection = Collection("shop", "big", self.deployment.oplog.new_uuid(), records_images=True)
        self.deployment.create(self.collection)

    def insert(self, document: dict[str, Any]) -> bytes:
        raw = bsondocs.encode(document)
        self.deployment.write(self.statements.inserted(self.collection, raw))
        return raw

    def replace(self, old: bytes, document: dict[str, Any]) -> bytes:
        raw = bsondocs.encode(document)
        self.deployment.write(self.statements.replaced(self.collection, old, raw))
        return raw

    def update(self, old: bytes, document: dict[str, Any]) -> bytes:
        """Write an update that sets every field except `_id`."""
        raw = bsondocs.encode(document)
        fields = {name: value for name, value in document.items() if name != "_id"}
        self.deployment.write(
            self.statements.delta(self.collection, old, bsondocs.encode({"u": fields}), raw)
        )
        return raw


@pytest.fixture(scope="module")
def history() -> History:
    """Events: small, two fragments, small, three fragments, small."""
    writer = Writer()
    first = writer.insert({"_id": 1, "text": "a" * 9 * MIB})
    writer.insert({"_id": 2, "text": "small"})
    writer.replace(first, {"_id": 1, "text": "b" * 9 * MIB})
    writer.insert({"_id": 3, "text": "small"})
    third = writer.insert({"_id": 4, "text": "c" * 15 * MIB})
    writer.update(third, {"_id": 4, "text": "d" * 15 * MIB})
    writer.insert({"_id": 5, "text": "small"})
    return writer.deployment.history(1)


def stream_of(history: History, pipeline: Sequence[dict[str, Any]] = (SPLIT,), **spec: Any) -> Stream:
    spec = {**IMAGES, "startAtOperationTime": history.start} | spec
    return Stream(history, Scope.parse_ns("shop.big"), spec, pipeline)


def place(event: bytes) -> tuple[int, int] | None:
    """Return (fragment, number of fragments), or None for a whole event."""
    found = rawbson.subdocument(event, b"splitEvent")
    if found is None:
        return None
    fields = bsondocs.decode(found)
    return fields["fragment"], fields["of"]


def fields_of(event: bytes) -> dict[str, bytes]:
    return {name.decode(): event[start:end] for _, name, start, end in rawbson.elements(event)}


def joined(fragments: Sequence[bytes]) -> dict[str, bytes]:
    """Join fragments as a client does: all their fields, without their tokens."""
    fields: dict[str, bytes] = {}
    for fragment in fragments:
        own = {
            name: value for name, value in fields_of(fragment).items() if name not in ("_id", "splitEvent")
        }
        assert not own.keys() & fields.keys()
        fields |= own
    return fields


def test_events_are_split_only_where_they_are_too_large(history: History) -> None:
    events = stream_of(history).events()
    assert [place(event) for event in events] == [
        None, None, (1, 2), (2, 2), None, None, (1, 3), (2, 3), (3, 3), None,
    ]  # fmt: skip
    assert all(len(event) <= LIMIT for event in events)
    tokens = [token_of(event)["_data"] for event in events]
    assert tokens == sorted(set(tokens))


def test_fragments_have_the_token_of_the_event_and_their_number(history: History) -> None:
    whole = Stream(history, Scope.parse_ns("shop.big"), {"startAtOperationTime": history.start}).events()
    split = stream_of(history).events()
    large = next(event for event in whole if operation_type(event) == "replace")
    token = ResumeToken.parse(bsondocs.encode(token_of(large)))
    for number, fragment in enumerate(split[2:4]):
        names = list(fields_of(fragment))
        assert names[:2] == ["_id", "splitEvent"]
        assert token_of(fragment) == bsondocs.decode(replace(token, fragment=number).to_bson())


def test_fields_are_packed_by_size_and_then_by_name(history: History) -> None:
    for fragments in (stream_of(history).events()[2:4], stream_of(history).events()[6:9]):
        order = [
            (element_size(name, value), name)
            for fragment in fragments
            for name, value in list(fields_of(fragment).items())[2:]
        ]
        assert order == sorted(order)


def element_size(name: str, value: bytes) -> int:
    return len(name.encode()) + 2 + len(value)


def test_joined_fragments_are_the_event(history: History) -> None:
    """The expected fields are read from streams that show few of them, and so need no split."""
    split = stream_of(history).events()
    plain = stream_of(history, (), fullDocument="default", fullDocumentBeforeChange="off").events()
    images = stream_of(history, ({"$project": {"fullDocument": 0, "updateDescription": 0}},)).events()
    posts = stream_of(
        history,
        ({"$project": {"fullDocumentBeforeChange": 0, "updateDescription": 0}},),
    ).events()
    for position, fragments in ((2, split[2:4]), (5, split[6:9])):
        expected = fields_of(plain[position]) | fields_of(images[position]) | fields_of(posts[position])
        del expected["_id"]
        assert joined(fragments) == expected


@pytest.mark.parametrize(
    ("option", "batch_size"), [("resumeAfter", 1), pytest.param("startAfter", None, marks=pytest.mark.slow)]
)
def test_a_stream_resumes_between_fragments(history: History, option: str, batch_size: int | None) -> None:
    stream = stream_of(history)
    events = stream.events()
    for position, event in enumerate(events):
        resumed = stream.resumed(**{option: token_of(event)})
        assert resumed.events(batch_size=batch_size) == events[position + 1 :]


def test_a_merge_of_shards_splits_events_in_the_same_way(history: History) -> None:
    stream = stream_of(history)
    events = stream.events()
    logs = history.split(3, 5)
    assert stream.events(logs) == events
    assert stream.after(token_of(events[2])).events(logs) == events[3:]


def test_without_the_stage_the_stream_stops_before_the_large_event(history: History) -> None:
    outcome = stream_of(history, ()).run()
    assert len(outcome.events) == 2
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.code_name) == (10334, "BSONObjectTooLarge")
    later = stream_of(history).after(token_of(outcome.events[-1])).events()
    assert [place(event) for event in later][:2] == [(1, 2), (2, 2)]


def test_a_projection_makes_the_event_fit(history: History) -> None:
    events = stream_of(history, ({"$project": {"fullDocumentBeforeChange": 0}},)).run()
    assert len(events.events) == 5
    assert events.error is not None  # the update is still too large: description and post-image


def test_a_fragment_token_needs_the_stage(history: History) -> None:
    token = token_of(stream_of(history).events()[2])
    with pytest.raises(CommandError) as error:
        stream_of(history, ()).resumed(resumeAfter=token).events()
    assert error.value.code == 280


def test_a_fragment_token_is_refused_when_the_event_is_no_longer_split(history: History) -> None:
    token = token_of(stream_of(history).events()[2])
    smaller = stream_of(history, fullDocumentBeforeChange="off").resumed(resumeAfter=token)
    with pytest.raises(CommandError) as error:
        smaller.events()
    assert error.value.code == 280


def test_a_fragment_token_is_refused_when_the_event_has_fewer_fragments(history: History) -> None:
    token = token_of(stream_of(history).events()[8])
    assert ResumeToken.parse(bsondocs.encode(token)).fragment == 2
    fewer = stream_of(history, fullDocumentBeforeChange="off").resumed(resumeAfter=token)
    with pytest.raises(CommandError) as error:
        fewer.events()
    assert error.value.code == 280


def test_a_field_that_fits_no_fragment_fails(history: History) -> None:
    both = {"$addFields": {"both": ["$fullDocument", "$fullDocumentBeforeChange"]}}
    match = {"$match": {"operationType": "replace"}}
    outcome = stream_of(history, (match, both, SPLIT)).run()
    assert not outcome.events
    assert outcome.error is not None
    assert outcome.error.code == 7182500


def test_an_event_that_consists_of_its_token_cannot_be_split() -> None:
    writer = Writer()
    writer.insert({"_id": "x" * 9 * MIB})
    stream = stream_of(writer.deployment.history(1), ({"$project": {"_id": 1}}, SPLIT))
    outcome = stream.run()
    assert outcome.error is not None
    assert outcome.error.code == 7182502


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$changeStreamSplitLargeEvent": {"a": 1}}], 7182800),
        ([{"$changeStreamSplitLargeEvent": 1}], 7182899),
        ([SPLIT, {"$match": {}}], 7182802),
        ([SPLIT, SPLIT], 7182802),
    ],
)
def test_the_stage_must_be_last_and_takes_no_arguments(
    history: History, pipeline: list[dict[str, Any]], code: int
) -> None:
    with pytest.raises(CommandError) as error:
        stream_of(history, pipeline).events()
    assert error.value.code == code


@pytest.mark.parametrize("key", [1, "a long key has a long token" * 300])
@pytest.mark.parametrize(("excess", "fragments"), [(0, 1), (1, 2)])
def test_the_limit_includes_the_event_and_its_token(key: Any, excess: int, fragments: int) -> None:
    """An event of exactly the limit is not split; with one more byte it is."""
    (probe,) = events_of_insert(key, "x")
    token = rawbson.subdocument(probe, b"_id") or b""
    text = "x" * (1 + LIMIT - len(probe) - len(token) + excess)
    assert len(events_of_insert(key, text)) == fragments


def events_of_insert(key: Any, text: str) -> list[bytes]:
    writer = Writer()
    writer.insert({"_id": key, "text": text})
    return stream_of(writer.deployment.history(1)).events()
