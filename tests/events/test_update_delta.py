"""What an update logs: a diff, a whole document, or neither."""

from typing import Any

import pytest
from bson import Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.update_diff import delta_of, diff_of, is_delta

DIFF: dict[str, Any] = {"u": {"a": 1}}


@pytest.mark.parametrize(
    "o",
    [
        {"$v": 2, "diff": DIFF},
        {"$v": 2, "diff": {}},
        {"$v": 2, "diff": DIFF, "more": 1},
        {"$v": 2, "x": 1, "diff": DIFF},
        {"diff": DIFF, "$v": 2},
    ],
)
def test_a_diff(o: dict[str, Any]) -> None:
    assert is_delta(encode(o))
    assert decode(diff_of(encode(o))) == o["diff"]
    if list(o) == ["$v", "diff"]:
        assert delta_of(encode(o["diff"])) == encode(o)


@pytest.mark.parametrize("o", [{"_id": 1}, {"a": 1, "_id": 2}, {"$v": 2, "_id": 1}])
def test_a_whole_document(o: dict[str, Any]) -> None:
    assert not is_delta(encode(o))


@pytest.mark.parametrize(
    "o",
    [
        {},
        {"a": 1},
        {"$v": 1, "$set": {"a": 1}},
        {"$v": Int64(2), "diff": DIFF},
        {"$v": 2.0, "diff": DIFF},
        {"diff": DIFF},
    ],
)
def test_neither(o: dict[str, Any]) -> None:
    with pytest.raises(CommandError) as caught:
        is_delta(encode(o))
    assert caught.value.code == 6741200


@pytest.mark.parametrize("o", [{"$v": 2}, {"$v": 2, "diff": 5}, {"$v": 2, "diff": [1]}])
def test_a_diff_that_is_not_there(o: dict[str, Any]) -> None:
    assert is_delta(encode(o))
    with pytest.raises(CommandError) as caught:
        diff_of(encode(o))
    assert caught.value.code == 6741200
