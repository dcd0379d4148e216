"""The stages by name: the one place where all of them come together."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.aggregation.count import compile_count
from tailrace.query.aggregation.group import compile_group
from tailrace.query.aggregation.limit_skip import compile_limit, compile_skip
from tailrace.query.aggregation.single_document import compile_filter, compile_reshaping
from tailrace.query.aggregation.sort import compile_sort_stage
from tailrace.query.aggregation.stage import StageType
from tailrace.query.aggregation.unwind import compile_unwind

STAGES: Final[Mapping[str, StageType]] = {
    "$addFields": StageType(compile_reshaping),
    "$count": StageType(compile_count),
    "$group": StageType(compile_group),
    "$limit": StageType(compile_limit),
    "$match": StageType(compile_filter),
    "$project": StageType(compile_reshaping),
    "$redact": StageType(compile_reshaping),
    "$replaceRoot": StageType(compile_reshaping),
    "$replaceWith": StageType(compile_reshaping),
    "$set": StageType(compile_reshaping),
    "$skip": StageType(compile_skip),
    "$sort": StageType(compile_sort_stage),
    "$unset": StageType(compile_reshaping),
    "$unwind": StageType(compile_unwind),
}
