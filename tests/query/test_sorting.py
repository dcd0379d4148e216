"""Sorting: BSON order through arrays and paths, stability, the first and last items, and errors."""

import random
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, MinKey
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bson.values import Undefined
from tailrace.errors import CommandError
from tailrace.query.collation import Collation
from tailrace.query.sorting import TopSelector, compile_sort
from tailrace.query.step_sort import sorted_with_ticks

ORDERS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"a": 1}, [{"a": MinKey()}, {"a": Undefined()}, {"a": None}, {"a": 1}, {"a": "x"}, {"a": MaxKey()}]),
    ({"a": 1}, [{"a": 1}, {"a": 1.5}, {"a": Decimal128("1.75")}, {"a": Int64(2)}]),
    ({"a": -1}, [{"a": 2}, {"a": 1}, {}]),
    # an empty array is below null, a missing field equal to it
    ({"a": 1}, [{"a": []}, {"b": 1}, {"a": None}, {"a": 0}]),
    # an array sorts as its least element, or its greatest
    ({"a": 1}, [{"a": [9, 1]}, {"a": 2}, {"a": [5, 3]}, {"a": 4}]),
    ({"a": -1}, [{"a": [9, 1]}, {"a": [5, 3]}, {"a": 4}, {"a": 2}]),
    ({"a": 1}, [{"a": [1, [0]]}, {"a": [[0]]}, {"a": [[0], [1]]}, {"a": [[1]]}]),
    # paths, through documents, through arrays and by index
    ({"a.b": 1}, [{"a": 5}, {"a": {"b": 1}}, {"a": [{"b": 7}, {"b": 2}]}, {"a": {"b": 3}}]),
    ({"a.b": 1}, [{"a": [{"b": 9}, 3]}, {"a": [[{"b": 1}]]}, {"a": [{"b": 1}]}]),
    ({"a.b": 1}, [{"a": []}, {"a": {"b": 0}}]),
    ({"a.1": 1}, [{"a": [9]}, {"a": [5, 1]}, {"a": [4, 2]}]),
    ({"a.1.b": -1}, [{"a": [0, {"b": 3}]}, {"a": [0, {"b": 2}]}, {"a": [0]}]),
    # several paths
    ({"a": 1, "b": -1}, [{"a": 1, "b": 2}, {"a": 1, "b": 1}, {"a": 2, "b": 9}]),
    ({"a": -1, "b": -1}, [{"a": 2, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 9}]),
    ({"a": -1, "b": 1}, [{"a": 2, "b": [1, 9]}, {"a": 2, "b": 3}, {"a": 1, "b": 0}]),
    # several paths through one array use the same element: (1, 9) against (1, 5), not (1, 0)
    ({"a.x": 1, "a.y": 1}, [{"a": {"x": 1, "y": 5}}, {"a": [{"x": 1, "y": 9}, {"x": 2, "y": 0}]}]),
    ({"a.x": -1, "a.y": -1}, [{"a": [{"x": 2, "y": 0}, {"x": 1, "y": 9}]}, {"a": {"x": 1, "y": 99}}]),
]


@pytest.mark.parametrize(("spec", "ordered"), ORDERS)
def test_order(spec: dict[str, Any], ordered: list[dict[str, Any]]) -> None:
    ordering = compile_sort(spec)
    numbered = [{**document, "_id": position} for position, document in enumerate(ordered)]
    assert [document["_id"] for document in ordering.sort(numbered)] == list(range(len(ordered)))
    assert sorted(numbered, key=ordering.key) == numbered


def test_equal_documents_keep_the_order_of_input() -> None:
    documents: list[dict[str, Any]] = [{"a": 1.0, "n": 1}, {"a": 1, "n": 2}, {"a": [1, 1], "n": 3}]
    for direction in (1, -1):
        assert compile_sort({"a": direction}).sort(documents) == documents


def test_collation() -> None:
    collation = Collation.parse({"locale": "en", "strength": 1})
    ordering = compile_sort({"a": 1}, collation)
    assert [d["a"] for d in ordering.sort([{"a": "b"}, {"a": "B"}, {"a": "a"}])] == ["a", "b", "B"]


_VALUES = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3)))
_DOCUMENTS = st.lists(st.fixed_dictionaries({"a": _VALUES, "b": st.integers(0, 2)}), max_size=120)


@given(
    _DOCUMENTS,
    st.sampled_from([{"a": 1}, {"a": -1}, {"a": 1, "b": -1}, {"b": -1, "a": -1}]),
    st.integers(1, 30),
)
def test_the_first_and_the_last_of_many(
    documents: list[dict[str, Any]], spec: dict[str, int], limit: int
) -> None:
    ordering = compile_sort(spec)
    numbered = [{**document, "n": number} for number, document in enumerate(documents)]
    everything = ordering.sort(numbered)
    first: TopSelector[dict[str, Any]] = TopSelector(ordering, limit)
    last: TopSelector[dict[str, Any]] = TopSelector(ordering, limit, from_end=True)
    for document in numbered:
        first.add(document, document)
        last.add(document, document)
    assert list(first.items()) == everything[:limit]
    assert list(last.items()) == everything[-limit:]
    assert sorted(numbered, key=ordering.key) == everything


ERRORS: list[tuple[Any, int]] = [
    ("a", 15973),
    ({}, 15976),
    ({"a": "x"}, 15974),
    ({"a": True}, 15974),
    ({"a": None}, 15974),
    ({"a": 0}, 15975),
    ({"a": 2}, 15975),
    ({"a": 0.5}, 15975),
    ({"a": Decimal128("1.9")}, 15975),
    ({"": 1}, 40352),
    ({"a.": 1}, 40353),
    ({"a..b": 1}, 15998),
    ({"$a": 1}, 16410),
    ({"a": {"$meta": "textScore"}}, 40218),
    ({"a": {"$meta": "nonsense"}}, 31138),
    ({"a": {"$add": [1, 2]}}, 17312),
    ({f"f{number}": 1 for number in range(33)}, 13103),
]


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_errors(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_sort(spec)
    assert caught.value.code == code, caught.value


def test_thirty_two_keys_and_directions_of_all_number_types() -> None:
    compile_sort({f"f{number}": 1 for number in range(32)})
    ordering = compile_sort({"a": 1.0, "b": Int64(-1), "c": Decimal128("0.9"), "d": -1.9})
    assert [path.is_descending for path in ordering.paths] == [False, True, False, True]


def test_parallel_arrays() -> None:
    with pytest.raises(CommandError) as caught:
        compile_sort({"a": 1, "b": 1}).sort([{"a": [1], "b": [2]}])
    assert caught.value.code == 2


def test_a_position_takes_what_is_there() -> None:
    documents: list[dict[str, Any]] = [
        {"a": [[1, 2]]},
        {"a": [5]},
        {"a": [{"x": 1}]},
        {"a": []},
        {"a": [True]},
    ]
    ordered = [documents[index] for index in (3, 1, 2, 0, 4)]
    assert compile_sort({"a.0": 1}).sort(documents) == ordered


@pytest.mark.parametrize(("spec", "code"), [({"a.0": 1, "b": 1}, 2), ({"c.0": 1}, 16746)])
def test_positions_in_arrays_that_conflict(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_sort(spec).sort([{"a": [1], "b": [2], "c": [{"0": 1}]}])
    assert caught.value.code == code


def test_an_empty_array_at_a_position_is_undefined() -> None:
    documents: list[dict[str, Any]] = [{"a": [None]}, {"a": [[]]}]
    assert compile_sort({"a.0": 1}).sort(documents) == documents[::-1]


KEYS: dict[str, Callable[[int, random.Random], float]] = {
    "different": lambda _, rng: rng.random(),
    "equal": lambda _number, _rng: 7,
    "mostly equal": lambda _, rng: 0.5 if rng.random() < 0.7 else rng.random(),
    "few": lambda _, rng: rng.randrange(4),
    "ascending": lambda number, _: number,
    "descending": lambda number, _: -number,
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("reverse", [False, True])
def test_many_items_are_sorted_in_steps_as_at_once(keys: str, reverse: bool) -> None:
    rng = random.Random(1)
    items = [(KEYS[keys](number, rng), number) for number in range(20_000)]
    at_once = sorted(items, key=itemgetter(0), reverse=reverse)
    assert sorted_with_ticks(items, reverse=reverse) == at_once
    assert items == []
