"""`compute_diff`: its rules, and the round trip with `apply_diff` and `describe`."""

import copy
from typing import Any

import pytest
from bson import Int64, ObjectId, Timestamp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import decode, encode
from tailrace.bson.raw import INT32, document, element
from tailrace.events.update_diff import apply_diff, compute_diff, describe
from tests.events.update_vectors import CASES

PIPELINE_CASES = [case for case in CASES if case["generatedBy"] == "pipeline"]
BIG = "x" * 200


def diff_of(pre: dict[str, Any], post: dict[str, Any]) -> dict[str, Any] | None:
    raw = compute_diff(encode(pre), encode(post))
    return None if raw is None else decode(raw)


def test_there_are_pipeline_vectors() -> None:
    assert len(PIPELINE_CASES) >= 5


@pytest.mark.parametrize("case", PIPELINE_CASES, ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    raw = compute_diff(encode(case["preImage"]), encode(case["postImage"]))
    assert raw == encode(case["oplogUpdate"]["diff"])


@pytest.mark.parametrize(
    ("pre", "post", "diff"),
    [
        ({"a": 1}, {"a": 2}, {"u": {"a": 2}}),
        ({"a": 1}, {"a": Int64(1)}, {"u": {"a": Int64(1)}}),
        ({"a": 1}, {"a": 1, "b": 2}, {"i": {"b": 2}}),
        ({"a": 1, "b": 2}, {"a": 1}, {"d": {"b": False}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"u": {"a": [1]}}),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3, "b": 2}, {"i": {"b": 2}}),
        (
            {"a": {"b": 1, "t": BIG}},
            {"a": {"b": 1, "t": BIG, "c": 3}},
            {"sa": {"i": {"c": 3}}},
        ),
        ({"a": [1, BIG]}, {"a": [2, BIG, 3]}, {"sa": {"a": True, "u0": 2, "u2": 3}}),
        (
            {"a": [BIG, {"b": BIG}, 1]},
            {"a": [BIG, {"b": BIG, "c": 1}]},
            {"sa": {"a": True, "l": 2, "s1": {"i": {"c": 1}}}},
        ),
        # The sub-diff would be as large as the new value or larger.
        ({"a": {"b": 1}}, {"a": {"b": 2}}, {"u": {"a": {"b": 2}}}),
        ({"a": [1, 2, 3]}, {"a": [1]}, {"u": {"a": [1]}}),
        # Fields left at the end first, then those skipped before, sorted.
        (
            {"z": 1, "y": 1, "k": 1, "q": 1, "p": 1},
            {"k": 1},
            {"d": {"q": False, "p": False, "y": False, "z": False}},
        ),
    ],
)
def test_rules(pre: dict[str, Any], post: dict[str, Any], diff: dict[str, Any]) -> None:
    pre, post = {"_id": BIG} | pre, {"_id": BIG} | post
    computed = diff_of(pre, post)
    assert computed is not None
    assert encode(computed) == encode(diff)


def test_a_diff_that_is_not_smaller_than_the_document_is_not_used() -> None:
    """The diff and the 15 bytes around it must be smaller than the document."""
    for padding, pays in ((15, False), (16, True)):
        pre, post = {"p": "x" * padding, "a": ""}, {"p": "x" * padding, "a": "y"}
        size = len(encode({"u": {"a": "y"}}))
        assert (size + 15 < len(encode(post))) is pays
        assert (diff_of(pre, post) is not None) is pays


def test_equal_documents_have_no_diff() -> None:
    assert diff_of({"a": BIG}, {"a": BIG}) is None


def test_a_document_with_repeated_fields_is_logged_whole() -> None:
    field = element(INT32, b"a", b"\1\0\0\0")
    doubled = document(field, field)
    big = encode({"b": BIG})[4:-1]
    assert compute_diff(document(big, field, field), document(big, field)) is None
    pre, post = document(big, element(3, b"c", doubled)), document(big, element(3, b"c", document(field)))
    diff = compute_diff(pre, post)
    assert diff == encode({"u": {"c": {"a": 1}}})
    assert apply_diff(pre, diff) == post


NAMES = st.sampled_from(["_id", "a", "b", "c", "", "0", "1", "a.b", "$x", "01", "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([Int64(1), 1.5, float("nan"), "x" * 40, "", b"xx", ObjectId(b"0" * 12), Timestamp(1, 2)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=6)


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """Draw the value with a few changes inside it."""
    if isinstance(value, dict):
        result = copy.deepcopy(value)
        some_names = st.lists(st.sampled_from(list(value)), max_size=2, unique=True) if value else st.just([])
        for name in draw(some_names):
            action = draw(st.sampled_from(["change", "delete", "move", "replace"]))
            inner = result.pop(name) if action in ("delete", "move") else result[name]
            if action == "change":
                result[name] = draw(changed(inner))
            elif action == "move":
                result[name] = inner
            elif action == "replace":
                result[name] = draw(VALUES)
        result |= draw(st.dictionaries(NAMES, SCALARS, max_size=1))
        return result
    if isinstance(value, list) and value:
        items = copy.deepcopy(value)
        position = draw(st.integers(0, len(items) - 1))
        action = draw(st.sampled_from(["change", "truncate", "extend"]))
        if action == "change":
            items[position] = draw(changed(items[position]))
        elif action == "truncate":
            del items[position:]
        else:
            items += draw(st.lists(SCALARS, min_size=1, max_size=3))
        return items
    return draw(VALUES)


PAIRS = st.one_of(
    st.tuples(DOCUMENTS, DOCUMENTS),
    DOCUMENTS.flatmap(lambda pre: st.tuples(st.just(pre), changed(pre))),
)


def fold(value: Any, path: list[Any], change: Any, *, remove: bool = False) -> None:
    """Set or remove the value at ``path``, as a reader of update events does."""
    *parents, last = path
    for step in parents:
        value = value[step]
    if remove:
        del value[last]
    elif isinstance(value, list) and last >= len(value):
        value.extend([None] * (last - len(value)))
        value.append(change)
    else:
        value[last] = change


def components(dotted: str, description: dict[str, Any], document: Any) -> list[Any]:
    if dotted in description["disambiguatedPaths"]:
        return list(description["disambiguatedPaths"][dotted])
    steps: list[Any] = []
    for step in dotted.split("."):
        steps.append(int(step) if isinstance(document, list) else step)
        if isinstance(document, list):
            document = document[int(step)] if int(step) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(step)
    return steps


@settings(derandomize=False, print_blob=True, max_examples=300, deadline=None)
@given(PAIRS)
def test_a_computed_diff_applies_and_describes(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    pre, post = ({"makes diffs pay": BIG * 100} | document for document in pair)
    raw_pre, raw_post = encode(pre), encode(post)
    diff = compute_diff(raw_pre, raw_post)
    if diff is None:
        assert raw_pre == raw_post
        return
    assert apply_diff(raw_pre, diff) == raw_post
    description = decode(describe(diff, expanded=True))
    without_paths = dict(description)
    del without_paths["disambiguatedPaths"]
    assert encode(decode(describe(diff, expanded=False))) == encode(without_paths)

    # Two paths may have the same dotted name, which is legal but cannot be applied.
    reported = [*description["updatedFields"], *description["removedFields"]]
    assume(len(set(reported)) == len(reported) == count_changes(decode(diff)))
    folded = decode(raw_pre)
    for truncation in description["truncatedArrays"]:
        path = components(truncation["field"], description, folded)
        target: Any = folded
        for step in path:
            target = target[step]
        del target[truncation["newSize"] :]
    for name, value in description["updatedFields"].items():
        fold(folded, components(name, description, folded), value)
    for name in description["removedFields"]:
        fold(folded, components(name, description, folded), None, remove=True)
    # A description contains values, not positions: compare without the order of fields.
    assert canonical(folded) == canonical(decode(raw_post))


def count_changes(diff: dict[str, Any]) -> int:
    """Return the number of updated and removed paths."""
    nested = sum(count_changes(inner) for name, inner in diff.items() if name[0] == "s")
    if "a" in diff:
        return nested + sum(name[0] == "u" for name in diff)
    return nested + sum(len(diff.get(section, {})) for section in "dui")


def canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {"document": sorted((name, repr(canonical(inner))) for name, inner in value.items())}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return encode({"": value})
