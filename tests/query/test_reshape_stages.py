"""The reshaping stages: results with their field order, and errors with their codes."""

from copy import deepcopy
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import CommandError
from tailrace.query.reshape import STAGE_NAMES, compile_stage
from tests.query.expr_helpers import CaseInsensitive

ARRAYS: dict[str, Any] = {"_id": 1, "a": [1, {"b": 2}, 3, {}, [{"b": 4, "c": 5}, 6]]}
NESTED: dict[str, Any] = {"_id": 7, "a": {"x": 1, "y": {"z": 2, "w": 3}}, "b": 5, "c": None}


def run(name: str, spec: Any, document: dict[str, Any], **variables: Any) -> Any:
    before = deepcopy(document)
    result = compile_stage(name, spec, variables=variables)(document)
    assert document == before, "a stage may not change the document it is given"
    return result


def assert_same(actual: Any, expected: Any) -> None:
    """Equal, with fields in the same order at every depth."""
    assert repr(actual) == repr(expected)


PROJECT: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # inclusion
    ({"b": 1}, NESTED, {"_id": 7, "b": 5}),
    ({"b": 1, "a": 1}, NESTED, {"_id": 7, "a": NESTED["a"], "b": 5}),
    ({"b": True, "_id": 0}, NESTED, {"b": 5}),
    ({"b": 2.5, "_id": False}, NESTED, {"b": 5}),
    ({"b": Int64(1), "_id": Decimal128("0")}, NESTED, {"b": 5}),
    ({"b": -1}, NESTED, {"_id": 7, "b": 5}),
    ({"nothing": 1}, NESTED, {"_id": 7}),
    ({"_id": 1}, NESTED, {"_id": 7}),
    ({"_id": 1, "c": 1}, {"c": 1, "_id": 2}, {"c": 1, "_id": 2}),
    ({"a.y.z": 1}, NESTED, {"_id": 7, "a": {"y": {"z": 2}}}),
    ({"a": {"y": {"z": 1}}}, NESTED, {"_id": 7, "a": {"y": {"z": 2}}}),
    ({"a": {"y.z": 1}}, NESTED, {"_id": 7, "a": {"y": {"z": 2}}}),
    ({"a.y": 1, "a.x": 1}, NESTED, {"_id": 7, "a": {"x": 1, "y": {"z": 2, "w": 3}}}),
    ({"b.x": 1}, NESTED, {"_id": 7}),
    ({"a.x.q": 1}, NESTED, {"_id": 7, "a": {}}),
    ({"_id.x": 1}, {"_id": {"x": 1, "y": 2}, "a": 1}, {"_id": {"x": 1}}),
    ({"a.b": 1, "_id": 0}, ARRAYS, {"a": [{"b": 2}, {}, [{"b": 4}]]}),
    ({"a.0": 1, "_id": 0}, ARRAYS, {"a": [{}, {}, [{}]]}),
    # exclusion
    ({"b": 0}, NESTED, {"_id": 7, "a": NESTED["a"], "c": None}),
    ({"_id": 0}, NESTED, {"a": NESTED["a"], "b": 5, "c": None}),
    ({"a.y.z": 0, "c": False}, NESTED, {"_id": 7, "a": {"x": 1, "y": {"w": 3}}, "b": 5}),
    ({"_id": 1, "a": 0, "c": 0}, NESTED, {"_id": 7, "b": 5}),
    ({"_id": 0, "a": 0, "c": 0}, NESTED, {"b": 5}),
    ({"b.x": 0, "_id": 0, "a": 0}, NESTED, {"b": 5, "c": None}),
    ({"a.b": 0, "_id": 0}, ARRAYS, {"a": [1, {}, 3, {}, [{"c": 5}, 6]]}),
    ({"a": {"b": 0}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
    # computed fields
    ({"n": "$b"}, NESTED, {"_id": 7, "n": 5}),
    ({"n": "$nothing"}, NESTED, {"_id": 7}),
    ({"n": "$$REMOVE", "b": 1}, NESTED, {"_id": 7, "b": 5}),
    ({"n": {"$literal": 1}}, NESTED, {"_id": 7, "n": 1}),
    ({"n": "text"}, NESTED, {"_id": 7, "n": "text"}),
    ({"n": None}, NESTED, {"_id": 7, "n": None}),
    ({"n": ["$b", "$nothing", 1]}, NESTED, {"_id": 7, "n": [5, None, 1]}),
    ({"z": "$b", "b": 1, "n": "$c"}, NESTED, {"_id": 7, "b": 5, "z": 5, "n": None}),
    ({"b": {"$add": ["$b", 1]}, "a": "$b"}, NESTED, {"_id": 7, "b": 6, "a": 5}),
    ({"_id": "$b"}, NESTED, {"_id": 5}),
    ({"a.n": "$b"}, NESTED, {"_id": 7, "a": {"n": 5}}),
    ({"a.x": 1, "a.n": "$b"}, NESTED, {"_id": 7, "a": {"x": 1, "n": 5}}),
    ({"b.n": "$b", "c": 1}, NESTED, {"_id": 7, "b": {"n": 5}, "c": None}),
    ({"new.n": "$b"}, NESTED, {"_id": 7, "new": {"n": 5}}),
    ({"new": {"n": "$b", "m": "$nothing"}}, NESTED, {"_id": 7, "new": {"n": 5}}),
    ({"new": {"m": "$nothing"}}, NESTED, {"_id": 7, "new": {}}),
    ({"a.b": {"$literal": 9}, "_id": 0}, ARRAYS,
     {"a": [{"b": 9}, {"b": 9}, {"b": 9}, {"b": 9}, [{"b": 9}, {"b": 9}]]}),
    ({"a.c": {"$literal": 9}, "a.b": 1, "_id": 0}, {"a": [1, {"b": 2}]}, {"a": [{"c": 9}, {"b": 2, "c": 9}]}),
    ({"_id": 0, "b": {"a": 1}, "b.c": 1}, {"b": {"c": 1, "a": 2, "z": 3}}, {"b": {"c": 1, "a": 2}}),
    ({"_id": 0, "A.Z": {"$add": [1]}, "A": {"Y": "$b", "A": "$b"}, "A.B": "$b"}, NESTED,
     {"A": {"Z": 1, "Y": 5, "A": 5, "B": 5}}),
    ({"_id": 0, "a.s1": {"$literal": 1}, "a.s2": 1, "a.s3.q": 1},
     {"a": {"s1": {"p": 1}, "s2": {"p": 1}, "s3": {"p": 1}}},
     {"a": {"s2": {"p": 1}, "s3": {}, "s1": 1}}),
    ({"_id": 0, "foo.bar": 1, "field": "$foo"}, {"foo": 2}, {"field": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "document", "expected"), PROJECT)
def test_project(spec: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]) -> None:
    assert_same(run("$project", spec, document), expected)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (5, 15969), ("a", 15969), ([], 15969), (None, 15969),
        ({}, 51272),
        ({"a": {}}, 51270),
        ({"a": {"b": {}}}, 51270),
        ({"a": 1, "b": 0}, 31254),
        ({"a": 0, "b": 1}, 31253),
        ({"a": {"x": 0}, "b": 1}, 31253),
        ({"a": "$x", "b": 0}, 31254),
        ({"a": 0, "b": {"$add": [1]}}, 31252),
        ({"a": 0, "b": "$x"}, 31310),
        ({"x": {"$add": [1]}, "x.b": 1}, 31249),
        ({"x.b": 1, "x": {"$add": [1]}}, 31250),
        ({"x": {"b": 1}, "x.b": 1}, 31250),
        ({"x.b": 1, "x": {"b": 1}}, 31250),
        ({"a": 0, "a.b": 0}, 31249),
        ({"_id": 0, "_id.x": 1}, 31249),
        ({"a": {"$nothing": 1}}, 31325),
        ({"a": {"$elemMatch": {"x": 1}}}, 168),
        ({"a": {"$meta": "textScore"}}, 40218),
        ({"a": {"$slice": 5}}, 28667),
        ({"a": {"$add": [{"$nothing": 1}]}}, 168),
        ({"a": {"$add": [1], "$abs": 1}}, 15983),
        ({"a": {"b": 1, "$abs": 1}}, 16410),
        ({"a.$": 1}, 31324),
        ({"": 1}, 40352),
        ({"a.": 1}, 40353),
        ({".a": 1}, 15998),
        ({"$a": 1}, 16410),
        ({"a": "$$nobody"}, 17276),
    ],
)  # fmt: skip
def test_project_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_stage("$project", spec)
    assert caught.value.code == code


ADD_FIELDS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"_id": 1}, {"_id": 1}),
    ({"n": 1}, {"_id": 1}, {"_id": 1, "n": 1}),
    ({"b": "$a", "a": "$b"}, {"a": 1, "b": 2}, {"a": 2, "b": 1}),
    ({"x": 3, "y": 4}, {"_id": 3, "y": 1, "z": 1}, {"_id": 3, "y": 4, "z": 1, "x": 3}),
    ({"a": "$nothing"}, {"a": 1, "b": 2}, {"b": 2}),
    ({"a": "$$REMOVE", "c": 1}, {"a": 1, "b": 2}, {"b": 2, "c": 1}),
    ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"c": 2, "b": 1}}),
    ({"a.b": 1, "a.c": 3}, {"a": {"c": 2}}, {"a": {"c": 3, "b": 1}}),
    ({"a.b.c": 1}, {"a": 5}, {"a": {"b": {"c": 1}}}),
    ({"a.b": "$nothing"}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
    ({"a.b": "$nothing"}, {"x": 1}, {"x": 1, "a": {}}),
    ({"a": []}, {"a": {"c": 2}}, {"a": []}),
    ({"a": {"$literal": {"b": 1}}}, {"a": {"c": 2}}, {"a": {"b": 1}}),
    ({"a": ["$b", {"c": "$b"}]}, {"b": 2}, {"b": 2, "a": [2, {"c": 2}]}),
    ({"a.b": 9}, {"a": [1, {"b": 2, "c": 3}, [4]]}, {"a": [{"b": 9}, {"b": 9, "c": 3}, [{"b": 9}]]}),
    ({"a.s.b": 9}, {"a": [1, {"s": [2, {}]}]}, {"a": [{"s": {"b": 9}}, {"s": [{"b": 9}, {"b": 9}]}]}),
    ({"_id": "$a"}, {"_id": 1, "a": 2}, {"_id": 2, "a": 2}),
    ({"t": "$$NOW"}, {}, {"t": DatetimeMS(5)}),
]  # fmt: skip


@pytest.mark.parametrize("name", ["$addFields", "$set"])
@pytest.mark.parametrize(("spec", "document", "expected"), ADD_FIELDS)
def test_add_fields(
    name: str, spec: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert_same(run(name, spec, document, NOW=DatetimeMS(5)), expected)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (1, 40272), ([], 40272), ("a", 40272),
        ({"a": {}}, 40180),
        ({"a": {"b": {}}}, 40180),
        ({"a": 1, "a.b": 1}, 40176),
        ({"a.b": 1, "a": 1}, 40176),
        ({"a": {"b": 1}, "a.b": 1}, 40176),
        ({"a": {"b.c": 1}}, 40183),
        ({"a": {"$add": [1], "b": 1}}, 40181),
        ({"a": {"$nothing": 1}}, 168),
        ({"a.": 1}, 40353),
        ({"$a": 1}, 16410),
        ({"": 1}, 40352),
        ({"a": {"": 1}}, 40352),
    ],
)  # fmt: skip
def test_add_fields_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_stage("$addFields", spec)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("spec", "document", "expected"),
    [
        ("a", {"_id": 1, "a": 2, "b": 3}, {"_id": 1, "b": 3}),
        (["_id", "a"], {"_id": 1, "a": 2, "b": 3}, {"b": 3}),
        (["a.b"], {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        ("a.b", {"a": [{"b": 1, "c": 2}, 5]}, {"a": [{"c": 2}, 5]}),
        ("a.0", {"a": [{"b": 1}], "x": {"0": 1}}, {"a": [{"b": 1}], "x": {"0": 1}}),
        (["x.0"], {"x": {"0": 1, "1": 2}}, {"x": {"1": 2}}),
        ("nothing", {"a": 1}, {"a": 1}),
    ],
)  # fmt: skip
def test_unset(spec: Any, document: dict[str, Any], expected: dict[str, Any]) -> None:
    assert_same(run("$unset", spec, document), expected)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (1, 31002), ({}, 31002), (None, 31002),
        ([], 31119),
        ([1], 31120), (["a", None], 31120),
        (["a", "a.b"], 31249), (["a.b", "a"], 31250), (["a", "a"], 31250),
        ("", 40352), ("$a", 16410), ("a.", 40353),
    ],
)  # fmt: skip
def test_unset_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_stage("$unset", spec)
    assert caught.value.code == code


def test_replace_root() -> None:
    document = {"_id": 1, "a": {"b": 2}, "n": None}
    assert run("$replaceRoot", {"newRoot": "$a"}, document) == {"b": 2}
    assert run("$replaceWith", "$a", document) == {"b": 2}
    assert_same(
        run("$replaceWith", {"x": "$a.b", "y": "$$ROOT._id", "z": "$nothing"}, document), {"x": 2, "y": 1}
    )
    assert run("$replaceWith", "$$ROOT", document) == document
    assert run("$replaceWith", {"$mergeObjects": ["$a", {"c": 3}]}, document) == {"b": 2, "c": 3}


@pytest.mark.parametrize("value", ["$_id", "$nothing", "$n", ["$a"], "text"])
def test_a_new_root_must_be_a_document(value: Any) -> None:
    stage = compile_stage("$replaceWith", value)
    with pytest.raises(CommandError) as caught:
        stage({"_id": 1, "a": {}, "n": None})
    assert caught.value.code == 40228


@pytest.mark.parametrize(
    ("spec", "code"), [(1, 40229), ("$a", 40229), ({}, 40414), ({"newRoot": 1, "x": 1}, 40415)]
)
def test_replace_root_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_stage("$replaceRoot", spec)
    assert caught.value.code == code


LEVELS: dict[str, Any] = {
    "_id": 1,
    "level": 1,
    "b": {
        "level": 3,
        "c": 5,
        "d": [{"level": 1, "e": 4}, {"f": 6}, {"level": 5, "g": 9}, "text",
              [2, {"level": 1, "r": 11}, {"level": 5}]],
    },
    "h": {"level": 2, "i": {"level": 4, "j": {"level": 1, "k": 8}}},
    "l": {"m": {"level": 3, "n": 12}},
    "o": [{"level": 5, "p": 19}],
    "q": 14,
}  # fmt: skip


def by_level(level: int, yes: str = "$$DESCEND") -> dict[str, Any]:
    return {"$cond": [{"$lte": ["$level", level]}, yes, "$$PRUNE"]}


def test_redact_descends_into_documents_and_arrays() -> None:
    assert_same(run("$redact", by_level(1), LEVELS), {"_id": 1, "level": 1, "l": {}, "o": [], "q": 14})
    third = run("$redact", by_level(3), LEVELS)
    assert third["b"]["d"] == [{"level": 1, "e": 4}, {"f": 6}, "text", [2, {"level": 1, "r": 11}]]
    assert third["h"] == {"level": 2}
    assert third["l"] == {"m": {"level": 3, "n": 12}}
    assert_same(run("$redact", by_level(5), LEVELS), LEVELS)


def test_redact_keeps_or_removes_the_whole_document() -> None:
    document = {"_id": 1, "level": 2, "b": {"level": 3}}
    assert run("$redact", by_level(1, "$$KEEP"), document) is None
    assert run("$redact", by_level(2, "$$KEEP"), document) == document
    assert run("$redact", "$$PRUNE", document) is None
    assert run("$redact", "$$KEEP", document) == document
    assert run("$redact", "$$DESCEND", document) == document


def test_redact_sees_the_whole_document_as_root() -> None:
    spec = {"$cond": [{"$eq": ["$$ROOT.secret", "$key"]}, "$$DESCEND", "$$PRUNE"]}
    document = {"secret": 1, "key": 1, "x": {"key": 1, "v": 1}, "y": {"key": 2}}
    assert run("$redact", spec, document) == {"secret": 1, "key": 1, "x": {"key": 1, "v": 1}}


@pytest.mark.parametrize("value", [1, "other", None, "$nothing"])
def test_redact_refuses_other_values(value: Any) -> None:
    stage = compile_stage("$redact", value)
    with pytest.raises(CommandError) as caught:
        stage({"a": 1})
    assert caught.value.code == 17053


def test_match_filters() -> None:
    assert run("$match", {"a": {"$gt": 1}}, {"a": 2}) == {"a": 2}
    assert run("$match", {"a": {"$gt": 1}}, {"a": 1}) is None
    assert run("$match", {"$expr": {"$eq": ["$a", "$$x"]}}, {"a": 1}, x=1) == {"a": 1}
    with pytest.raises(CommandError) as caught:
        compile_stage("$match", [])
    assert caught.value.code == 15959


def test_other_stages_are_refused_by_name() -> None:
    with pytest.raises(CommandError, match=r"\$group") as caught:
        compile_stage("$group", {})
    assert caught.value.code == 40324
    assert "$match" in STAGE_NAMES


def test_variables_reach_every_stage() -> None:
    assert run("$project", {"x": "$$v", "_id": 0}, {}, v=3) == {"x": 3}
    assert run("$replaceWith", {"x": "$$v"}, {}, v=3) == {"x": 3}
    assert run("$redact", {"$cond": ["$$v", "$$KEEP", "$$PRUNE"]}, {"a": 1}, v=False) is None


def test_collation_reaches_the_expressions() -> None:
    stage = compile_stage("$addFields", {"same": {"$eq": ["$a", "ABC"]}}, collation=CaseInsensitive())
    assert stage({"a": "abc"}) == {"a": "abc", "same": True}


# Places: seen on a real server, in aggregations and in change streams.


@pytest.mark.parametrize(
    ("stages", "names"),
    [
        ([("$unset", "a"), ("$set", {"a": 5})], ["_id", "a", "b"]),
        ([("$unset", "a"), ("$set", {"z": 1, "a": 5})], ["_id", "a", "b", "z"]),
        ([("$project", {"a": 0}), ("$set", {"a": 5})], ["_id", "a", "b"]),
        ([("$set", {"a": "$nope"}), ("$set", {"a": 5})], ["_id", "a", "b"]),
        ([("$set", {"m": "$nope", "n": 1, "w": "$nope"}), ("$set", {"z": 1, "w": 1, "m": 1})],
         ["_id", "a", "b", "m", "n", "w", "z"]),
        ([("$project", {"m": "$nope", "n": "$b"}), ("$set", {"m": 1})], ["_id", "m", "n"]),
        ([("$project", {"u.x": 1, "made": {"$size": [[]]}}), ("$set", {"u.y": 1})], ["_id", "u", "made"]),
        ([("$project", {"made": {"$size": [[]]}, "u.x": 1}), ("$set", {"u.y": 1})], ["_id", "made", "u"]),
        ([("$project", {"u": 1, "made": {"$size": [[]]}}), ("$set", {"u": 1})], ["_id", "made", "u"]),
        ([("$project", {"u.x": 1, "b": 1}), ("$set", {"z": 1, "u.y": 1})], ["_id", "b", "z", "u"]),
        ([("$project", {"b": 1}), ("$set", {"z": 1, "a": 1})], ["_id", "b", "z", "a"]),
        ([("$replaceWith", {"_id": 1, "m": "$nope", "n": "$b"}), ("$set", {"z": 1, "m": 1})],
         ["_id", "m", "n", "z"]),
        ([("$replaceWith", {"$unsetField": {"field": "a", "input": "$$ROOT"}}), ("$set", {"a": 1})],
         ["_id", "a", "b"]),
    ],
)  # fmt: skip
def test_a_field_that_a_stage_removes_keeps_its_place(
    stages: list[tuple[str, Any]], names: list[str]
) -> None:
    document: Any = {"_id": 1, "a": 1, "b": 2}
    for name, spec in stages:
        document = run(name, spec, document)
    assert list(document) == names


def test_places_in_nested_documents() -> None:
    document = run("$unset", "a.x", {"_id": 7, "a": {"x": 1, "y": 2}})
    assert_same(run("$set", {"a.z": 3, "a.x": 4}, document), {"_id": 7, "a": {"x": 4, "y": 2, "z": 3}})


def test_a_value_without_included_fields_keeps_its_place_if_it_was_read() -> None:
    document: Any = {"_id": 1, "a": None, "b": {"x": 1, "y": 2}, "c": 3}
    project = compile_stage("$project", {"b.x.k": 1, "b.y": 1, "a.k": 1, "c": 1}, reads_whole=True)
    projected: Any = project(document)
    assert_same(run("$set", {"n": 1}, projected), {"_id": 1, "b": {"y": 2}, "c": 3, "n": 1})
    added = run("$set", {"n": 1, "a.k": 1, "b.x": 2}, projected)
    assert_same(added, {"_id": 1, "a": {"k": 1}, "b": {"x": 2, "y": 2}, "c": 3, "n": 1})


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.integers(-3, 3) | st.none() | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


@settings(derandomize=False, print_blob=True, max_examples=60)
@given(DOCUMENTS, PATHS)
def test_unset_is_an_excluding_project(document: dict[str, Any], path: str) -> None:
    assert_same(run("$unset", path, document), run("$project", {path: 0}, document))


@settings(derandomize=False, print_blob=True, max_examples=60)
@given(DOCUMENTS, PATHS)
def test_inclusion_is_idempotent(document: dict[str, Any], path: str) -> None:
    once = run("$project", {path: 1}, document)
    assert_same(run("$project", {path: 1}, once), once)


@settings(derandomize=False, print_blob=True, max_examples=60)
@given(DOCUMENTS, PATHS)
def test_an_added_field_can_be_read_and_unset(document: dict[str, Any], path: str) -> None:
    added = run("$addFields", {path: {"$literal": 42}}, document)
    assert run("$unset", path, added) == run("$unset", path, run("$addFields", {path: "$nothing"}, document))
    found = run("$project", {"v": f"${path}"}, added).get("v")

    def leaves(value: Any) -> list[Any]:
        return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]

    assert set(leaves(found)) <= {42}
