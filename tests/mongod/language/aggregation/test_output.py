"""`$out` and `$merge`: the target for the caller, and errors."""

from typing import Any

import pytest

from tailrace.bson.documents import decode, encode
from tailrace.mongod.language.aggregation import MergeTarget, OutTarget, PipelineContext, compile_pipeline
from tests.mongod.language.aggregation.pipeline_helpers import assert_code

CONTEXT = PipelineContext("shop", "here", variables={"outer": 7})


def output(stage: dict[str, Any]) -> Any:
    return compile_pipeline([{"$match": {"a": 1}}, stage], CONTEXT).output


def test_the_results_are_returned_to_the_caller() -> None:
    pipeline = compile_pipeline([{"$match": {"a": 1}}, {"$out": "there"}], CONTEXT)
    documents = [encode({"a": 1}), encode({"a": 2})]
    assert [decode(raw) for raw in pipeline.run(documents) if isinstance(raw, bytes)] == [{"a": 1}]


def test_out() -> None:
    assert output({"$out": "there"}) == OutTarget("shop", "there")
    assert output({"$out": {"db": "other", "coll": "there"}}) == OutTarget("other", "there")
    target = output({"$out": {"db": "other", "coll": "there", "timeseries": {"timeField": "t"}}})
    assert target == OutTarget("other", "there", {"timeField": "t"})


def merge(**spec: Any) -> MergeTarget:
    target = output({"$merge": {"into": "there", **spec}})
    assert isinstance(target, MergeTarget)
    return target


def test_merge_by_default() -> None:
    target = output({"$merge": "there"})
    assert isinstance(target, MergeTarget)
    assert (target.database, target.collection) == ("shop", "there")
    assert (target.on, target.when_matched, target.when_not_matched) == (("_id",), "merge", "insert")
    assert target.variables_for({"a": 1}) == {"new": {"a": 1}}


def test_merge_options() -> None:
    target = merge(into={"db": "other", "coll": "there"}, on=["a", "b.c"], whenMatched="replace")
    assert (target.database, target.collection, target.on) == ("other", "there", ("a", "b.c"))
    assert merge(on="a").on == ("a",)
    assert merge(into={"coll": "there"}).database == "shop"
    assert merge(whenMatched="fail").when_matched == "fail"
    assert merge(whenNotMatched="discard").when_not_matched == "discard"


def test_merge_with_a_pipeline_has_variables() -> None:
    stages = [{"$set": {"n": "$$new.n"}}]
    target = merge(whenMatched=stages, let={"sum": {"$add": ["$n", "$$outer"]}, "new": "$$ROOT"})
    assert target.when_matched == stages
    assert target.variables_for({"n": 1}) == {"new": {"n": 1}, "sum": 8}


ERRORS: list[tuple[dict[str, Any], int]] = [
    ({"$out": 1}, 16990),
    ({"$out": ""}, 73),
    ({"$out": {"coll": "x"}}, 16994),
    ({"$out": {"db": "x", "coll": 1}}, 13111),
    ({"$out": {"db": "x", "coll": "y", "other": 1}}, 40415),
    ({"$out": "system.users"}, 17385),
    ({"$out": {"db": "admin", "coll": "x"}}, 31321),
    ({"$merge": 1}, 14),
    ({"$merge": {}}, 40414),
    ({"$merge": {"into": 1}}, 51178),
    ({"$merge": {"into": ""}}, 5786800),
    ({"$merge": {"into": {"db": "x"}}}, 5786801),
    ({"$merge": {"into": "system.users"}}, 31319),
    ({"$merge": {"into": {"db": "local", "coll": "x"}}}, 31320),
    ({"$merge": {"into": "x", "other": 1}}, 40415),
    ({"$merge": {"into": "x", "on": 1}}, 51186),
    ({"$merge": {"into": "x", "on": []}}, 51187),
    ({"$merge": {"into": "x", "on": [1]}}, 51134),
    ({"$merge": {"into": "x", "on": ["a", "a"]}}, 31465),
    ({"$merge": {"into": "x", "on": "$a"}}, 16410),
    ({"$merge": {"into": "x", "whenMatched": 1}}, 51191),
    ({"$merge": {"into": "x", "whenMatched": "other"}}, 2),
    ({"$merge": {"into": "x", "whenNotMatched": "other"}}, 2),
    ({"$merge": {"into": "x", "whenNotMatched": 1}}, 14),
    ({"$merge": {"into": "x", "whenMatched": "fail", "whenNotMatched": "discard"}}, 51181),
    ({"$merge": {"into": "x", "whenMatched": "keepExisting", "whenNotMatched": "fail"}}, 51181),
    ({"$merge": {"into": "x", "whenMatched": "merge", "let": {}}}, 51199),
    ({"$merge": {"into": "x", "whenMatched": [], "let": {"new": 1}}}, 51273),
    ({"$merge": {"into": "x", "whenMatched": [], "let": {"Upper": 1}}}, 9),
    ({"$merge": {"into": "x", "whenMatched": [], "let": 1}}, 14),
]


@pytest.mark.parametrize(("stage", "code"), ERRORS)
def test_errors(stage: dict[str, Any], code: int) -> None:
    assert_code([stage], code)
