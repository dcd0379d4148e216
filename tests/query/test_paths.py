"""The values at a dotted path, with their order and offsets."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.query.missing import MISSING
from tailrace.query.paths import Path, array_index, as_document

M = MISSING

# (path, document, values with offsets)
CASES: list[tuple[str, dict[str, Any], list[tuple[Any, int | None]]]] = [
    ("a", {"x": 4, "a": 5}, [(5, None)]),
    ("a", {"x": 4}, [(M, None)]),
    ("a", {"a": None}, [(None, None)]),
    ("a", {"a": [5, 6]}, [(5, 0), (6, 1), ([5, 6], None)]),
    ("a", {"a": []}, [([], None)]),
    ("a", {"a": [[1]]}, [([1], 0), ([[1]], None)]),
    ("a.b", {"a": {"b": 1}}, [(1, None)]),
    ("a.b", {"a": {}}, [(M, None)]),
    ("a.b", {"a": 4}, [(M, None)]),
    ("a.b", {}, [(M, None)]),
    ("a.b", {"a": [4]}, []),
    ("a.b", {"a": []}, []),
    ("a.b", {"a": [[{"b": 1}]]}, []),
    ("a.b", {"a": {"b": []}}, [([], None)]),
    ("a.b", {"a": [{"b": 5}, 3, {}, {"b": [9, 11]}, {"b": 7}]},
     [(5, 0), (M, 2), (9, 3), (11, 3), ([9, 11], 3), (7, 4)]),
    ("a.b", {"a": [{"b": [2, 3]}, {"b": [4, 5]}]},
     [(2, 0), (3, 0), ([2, 3], 0), (4, 1), (5, 1), ([4, 5], 1)]),
    ("a.b.c", {"a": [{"b": [{"c": 1}, {"c": 2}]}]}, [(1, 0), (2, 0)]),
    ("a.b.x", {"a": [{"b": []}, {"b": []}]}, []),
    ("a.1", {"a": [5, 7, 3]}, [(7, 1)]),
    ("a.3", {"a": [5, 7, 3]}, []),
    ("a.01", {"a": [5, 7, 3]}, []),
    ("a.-1", {"a": [5, 7, 3]}, []),
    ("a.1", {"a": {"1": 8}}, [(8, None)]),
    ("a.1", {"a": [5, [2, 4], 3]}, [([2, 4], 1)]),
    ("a.1", {"a": [5, {"1": 4}, 3]}, [(4, 1), ({"1": 4}, 1)]),
    ("a.1.b", {"a": [5, {"b": 4}, 3]}, [(M, 1), (4, None)]),
    ("a.1.b", {"a": [5, [{"b": 4}], 3]}, [(4, 0)]),
    ("a.1.b", {"a": [5, 6, 3]}, []),
    ("a.0.0", {"a": [[[]]]}, [([], 0)]),
    ("a.0.0.0", {"a": [[[7]]]}, [(7, 0)]),
    ("a.0.b", {"a": [{"b": [2, 3]}, {"b": [4, 5]}]},
     [(M, 0), (2, 0), (3, 1), ([2, 3], None), (M, 1)]),
    ("0", {"0": 1}, [(1, None)]),
    ("", {"": 1}, [(1, None)]),
    ("a.", {"a": {"": 1}}, [(1, None)]),
    (".a", {"": {"a": 1}}, [(1, None)]),
    ("a..b", {"a": {"": {"b": 1}}}, [(1, None)]),
    ("a.$b", {"a": {"$b": 1}}, [(1, None)]),
    ("a." + "9" * 5000, {"a": [1]}, []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "document", "expected"), CASES)
def test_values(path: str, document: dict[str, Any], expected: list[tuple[Any, int | None]]) -> None:
    assert list(Path(path).values(document)) == expected


@pytest.mark.parametrize(
    ("path", "document", "expected"),
    [
        ("a", {"a": [5, 6]}, [([5, 6], None)]),
        ("a", {"a": 5}, [(5, None)]),
        ("a.b", {"a": [{"b": 5}, 3, {}, {"b": [9, 11]}]}, [(5, 0), (M, 2), ([9, 11], 3)]),
        ("a.0", {"a": [[1, 2]]}, [([1, 2], 0)]),
    ],
)
def test_values_without_the_last_array(
    path: str, document: dict[str, Any], expected: list[tuple[Any, int | None]]
) -> None:
    assert list(Path(path).values(document, into_last_array=False)) == expected


@pytest.mark.parametrize(
    ("component", "index"),
    [("0", 0), ("7", 7), ("10", 10), ("00", None), ("a", None), ("", None), ("1a", None), ("²", None)],
)
def test_array_index(component: str, index: int | None) -> None:
    assert array_index(component) == index


def test_as_document() -> None:
    assert as_document({"a": 1}) == {"a": 1}
    assert as_document([5, [6]]) == {"0": 5, "1": [6]}
    assert as_document("a") is None


names = st.sampled_from(["a", "b", "0", "1"])
values = st.recursive(
    st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@settings(derandomize=False, print_blob=True)
@given(
    st.dictionaries(names, values, max_size=3),
    st.lists(names, min_size=1, max_size=4).map(".".join),
    st.sampled_from([0, 1, MISSING, [], {}]),
    st.booleans(),
)
def test_predicate_agrees_with_values(
    document: dict[str, Any], text: str, wanted: Any, into_last_array: bool
) -> None:
    path = Path(text)
    found = any(value == wanted for value, _ in path.values(document, into_last_array=into_last_array))
    predicate = path.predicate(lambda value: bool(value == wanted), into_last_array=into_last_array)
    assert predicate(document) == found
