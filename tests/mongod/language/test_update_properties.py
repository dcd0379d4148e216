"""Random updates with every operator: the logged diff turns the document before into the one after."""

from typing import Any

from bson import Decimal128, Int64
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.events.update_diff import apply_diff, describe
from tests.mongod.language.update_helpers import update

NAMES = st.sampled_from(["a", "b", "c", "0", "1", "12"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([Int64(2), 1.5, "x", Decimal128("1.0")])
)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([Int64(2), 1.5, Decimal128("1.0")]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)
STEPS = st.one_of(NAMES, NAMES, st.sampled_from(["$[]", "$[e]", "$"]))
PATHS = st.builds(lambda first, rest: ".".join([first, *rest]), NAMES, st.lists(STEPS, max_size=3))
PUSH = st.fixed_dictionaries(
    {"$each": st.lists(VALUES, max_size=3)},
    optional={
        "$position": st.integers(-3, 3),
        "$slice": st.integers(-3, 3),
        "$sort": st.sampled_from([1, -1, {"a": 1}, {"b.0": -1, "a": 1}]),
    },
)
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "$addToSet": VALUES | st.builds(lambda each: {"$each": each}, st.lists(VALUES, max_size=3)),
    "$bit": st.dictionaries(st.sampled_from(["and", "or", "xor"]), st.integers(0, 7), min_size=1),
    "$currentDate": st.sampled_from([True, {"$type": "date"}, {"$type": "timestamp"}]),
    "$inc": NUMBERS,
    "$max": VALUES,
    "$min": VALUES,
    "$mul": NUMBERS,
    "$pop": st.sampled_from([1, -1]),
    "$pull": SCALARS | st.sampled_from([{"$gte": 1}, {"$exists": True}, {"a": {"$ne": 1}}]),
    "$pullAll": st.lists(VALUES, max_size=3),
    "$push": VALUES | PUSH,
    "$rename": st.builds(".".join, st.lists(NAMES, min_size=1, max_size=3)),
    "$set": VALUES,
    "$setOnInsert": VALUES,
    "$unset": st.just(""),
}


def paths_in(value: Any, prefix: str = "") -> list[str]:
    """The paths of all fields and elements of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for step, inner in items:
        path = f"{prefix}{step}"
        found += [path, *paths_in(inner, f"{path}.")]
    return found


@st.composite
def documents_and_updates(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    document = draw(DOCUMENTS)
    known = paths_in(document)
    extended = (
        st.builds(lambda path, step: f"{path}.{step}", st.sampled_from(known), STEPS) if known else PATHS
    )
    paths = st.one_of(st.sampled_from(known), extended, PATHS) if known else PATHS
    names = draw(st.lists(st.sampled_from(sorted(ARGUMENTS)), min_size=1, max_size=2, unique=True))
    spec = {name: draw(st.dictionaries(paths, ARGUMENTS[name], min_size=1, max_size=2)) for name in names}
    return document, spec


@settings(derandomize=False, print_blob=True, max_examples=500, deadline=None)
@given(documents_and_updates(), st.integers(0, 2), st.booleans())
def test_the_diff_has_the_effect_of_the_update(
    document_and_update: tuple[dict[str, Any], dict[str, Any]], position: int, is_insert: bool
) -> None:
    before, spec = document_and_update
    uses_filter = any("$[e]" in path for arguments in spec.values() for path in arguments)
    filters = [{"e": {"$not": {"$type": "string"}}}] if uses_filter else []
    result, failure = None, 0
    try:
        result = update(
            before, spec, array_filters=filters, array_position=position, is_upsert_insert=is_insert
        )
    except CommandError as error:
        failure = error.code
    if result is None:
        event(f"error {failure}")
        assert failure in (2, 14, 28, 40)
        return
    raw_before, raw_after = encode(before), encode(result.document)
    if result.diff is None:
        event("no change")
        assert not result.modified
        assert raw_before == raw_after
        return
    raw_diff = encode(result.diff)
    assert result.modified
    assert apply_diff(raw_before, raw_diff) == raw_after
    assert apply_diff(raw_after, raw_diff) == raw_after
    describe(raw_diff, expanded=True)
