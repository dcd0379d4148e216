"""Which release has which option, stage and rule: the last without it, and the first with it."""

import pytest

from tailrace.errors import CommandError
from tailrace.events.stream_release import CURRENT_RELEASE, SERIES, SPLIT, Number, StreamRelease

OPTIONS: list[tuple[str, Number, Number]] = [
    ("startAfter", (4, 1, 0), (4, 1, 1)),
    ("showMigrationEvents", (4, 6, 99), (4, 7, 0)),
    ("allowToRunOnConfigDB", (4, 9, 99), (5, 0, 0)),
    ("fullDocumentBeforeChange", (5, 3, 99), (6, 0, 0)),
    ("showExpandedEvents", (5, 3, 99), (6, 0, 0)),
    ("showSystemEvents", (5, 3, 99), (6, 0, 0)),
    ("showRawUpdateDescription", (5, 3, 99), (6, 0, 0)),
    ("allowToRunOnSystemNS", (5, 3, 99), (6, 0, 0)),
    ("matchCollectionUUIDForUpdateLookup", (6, 0, 26), (6, 0, 27)),
    ("matchCollectionUUIDForUpdateLookup", (8, 1, 99), (8, 2, 0)),
    ("matchCollectionUUIDForUpdateLookup", (6, 1, 99), (8, 2, 0)),
    ("ignoreRemovedShards", (8, 1, 99), (8, 2, 0)),
    ("version", (8, 1, 99), (8, 2, 0)),
    ("supportedEvents", (8, 1, 99), (8, 2, 0)),
    ("showCommitTimestamp", (8, 2, 0), (8, 2, 1)),
]
STAGES: list[tuple[str, Number, Number]] = [
    ("$set", (4, 1, 99), (4, 2, 0)),
    ("$unset", (4, 1, 99), (4, 2, 0)),
    ("$replaceWith", (4, 1, 99), (4, 2, 0)),
    (SPLIT, (6, 0, 8), (6, 0, 9)),
    (SPLIT, (6, 3, 99), (7, 0, 0)),
]
RULES: list[tuple[str, Number, Number]] = [
    ("tokens_1", (4, 0, 6), (4, 0, 7)),
    ("tokens_2", (6, 0, 99), (6, 1, 0)),
    ("splits_large_events", (6, 0, 8), (6, 0, 9)),
    ("splits_large_events", (6, 3, 99), (7, 0, 0)),
    ("keeps_resume_tokens", (4, 1, 99), (4, 2, 0)),
    ("shows_applied_operations", (6, 0, 99), (6, 1, 0)),
    ("shows_index_builds", (8, 0, 99), (8, 1, 0)),
    ("wall_time", (5, 3, 99), (6, 0, 0)),
    ("expanded_wall_time", (5, 3, 99), (6, 0, 0)),
    ("truncated_arrays", (4, 6, 99), (4, 7, 0)),
    ("disambiguated_paths", (6, 0, 99), (6, 1, 0)),
    ("ns_type", (8, 0, 99), (8, 1, 0)),
    ("from_migrate", (8, 1, 99), (8, 2, 0)),
    ("post_image_last", (8, 2, 99), (8, 3, 0)),
    ("matches_uuids_of_lookups_only", (6, 0, 99), (6, 1, 0)),
    ("matches_entries", (5, 0, 99), (5, 1, 0)),
    ("converts_binary", (7, 3, 99), (8, 0, 0)),
    ("undefined_is_not_null", (7, 3, 99), (8, 0, 0)),
]


@pytest.mark.parametrize(("option", "last", "first"), OPTIONS)
def test_options(option: str, last: Number, first: Number) -> None:
    StreamRelease.of(first).check({option: 1}, [])
    with pytest.raises(CommandError) as caught:
        StreamRelease.of(last).check({"resumeAfter": {}, option: 1}, [])
    assert caught.value.code == 40415


@pytest.mark.parametrize(("stage", "last", "first"), STAGES)
def test_stages(stage: str, last: Number, first: Number) -> None:
    StreamRelease.of(first).check({}, [{stage: {}}])
    with pytest.raises(CommandError) as caught:
        StreamRelease.of(last).check({}, [{"$match": {}}, {stage: {}}])
    assert caught.value.code == 40324


@pytest.mark.parametrize(("rule", "last", "first"), RULES)
def test_rules(rule: str, last: Number, first: Number) -> None:
    assert not getattr(StreamRelease.of(last), rule)
    assert getattr(StreamRelease.of(first), rule)


@pytest.mark.parametrize("mode", ["whenAvailable", "required", "nope"])
def test_modes_of_images_came_with_6_0(mode: str) -> None:
    StreamRelease.of((6, 0, 0)).check({"fullDocument": mode}, [])
    with pytest.raises(CommandError) as caught:
        StreamRelease.of((5, 3, 99)).check({"fullDocument": mode}, [])
    assert caught.value.code == 40575
    for known in ("default", "updateLookup", 5):
        StreamRelease.of((4, 0, 0)).check({"fullDocument": known}, [])


def test_the_feature_compatibility_version_decides_about_wall_times() -> None:
    assert not StreamRelease.of((6, 0, 0), (5, 0, 0)).wall_time
    assert StreamRelease.of((6, 0, 0), (5, 0, 0)).expanded_wall_time
    assert StreamRelease.of_server("6.0.27", "5.0").series == "5.0"
    assert StreamRelease.of_server("6.0.27", "6.0").series == "6.0"
    assert StreamRelease.of_server("6.0.27").version == "6.0.27"


def test_versions_of_tokens() -> None:
    versions = {(4, 0, 6): 0, (4, 0, 7): 1, (6, 0, 27): 1, (6, 1, 0): 2, (8, 2, 1): 2}
    assert {number: StreamRelease.of(number).token_version for number in versions} == versions
    known = {(4, 0, 6): 0, (6, 0, 8): 1, (6, 0, 9): 2, (6, 1, 0): 2}
    assert {number: StreamRelease.of(number).newest_known_tokens for number in known} == known
    assert CURRENT_RELEASE.version == "8.2.1"
    assert CURRENT_RELEASE.shows_inserts_as_now
    assert not StreamRelease.of((6, 0, 27)).shows_inserts_as_now
    assert (SERIES[0], SERIES[-1], len(SERIES)) == ((4, 0), (8, 3), 19)
