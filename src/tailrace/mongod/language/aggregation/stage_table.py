"""The table of all stages by name."""

from collections.abc import Mapping
from typing import Final

from tailrace.mongod.language.aggregation.joins.graph_lookup import compile_graph_lookup
from tailrace.mongod.language.aggregation.joins.lookup import compile_lookup
from tailrace.mongod.language.aggregation.joins.union_with import compile_union_with
from tailrace.mongod.language.aggregation.output.merge import parse_merge
from tailrace.mongod.language.aggregation.output.out import parse_out
from tailrace.mongod.language.aggregation.stage import HOLDERS, Place, StageType
from tailrace.mongod.language.aggregation.stages.bucket import compile_bucket
from tailrace.mongod.language.aggregation.stages.bucket_auto import compile_bucket_auto
from tailrace.mongod.language.aggregation.stages.count import compile_count
from tailrace.mongod.language.aggregation.stages.densify import compile_densify
from tailrace.mongod.language.aggregation.stages.documents import compile_documents
from tailrace.mongod.language.aggregation.stages.facet import compile_facet
from tailrace.mongod.language.aggregation.stages.fill import compile_fill
from tailrace.mongod.language.aggregation.stages.group import compile_group
from tailrace.mongod.language.aggregation.stages.limit_skip import compile_limit, compile_skip
from tailrace.mongod.language.aggregation.stages.refused import (
    refuse_change_stream,
    refuse_geo_near,
    refuse_search,
)
from tailrace.mongod.language.aggregation.stages.sample import compile_sample
from tailrace.mongod.language.aggregation.stages.server_state import compile_server_state
from tailrace.mongod.language.aggregation.stages.set_window_fields import compile_set_window_fields
from tailrace.mongod.language.aggregation.stages.single_document import compile_filter, compile_reshaping
from tailrace.mongod.language.aggregation.stages.sort import compile_sort_stage
from tailrace.mongod.language.aggregation.stages.sort_by_count import compile_sort_by_count
from tailrace.mongod.language.aggregation.stages.unwind import compile_unwind

_EVERYWHERE_ELSE: Final = frozenset(HOLDERS)
_RESHAPING: Final = StageType(compile_reshaping)
_SEARCH: Final = StageType(refuse_search)
_STREAM: Final = StageType(refuse_change_stream, Place.FIRST, _EVERYWHERE_ELSE, in_transaction=False)
_STATISTICS: Final = StageType(
    compile_server_state, Place.FIRST, frozenset({"$facet"}), in_transaction=False, brings_documents=True
)
_SERVER_STATE: Final = StageType(
    compile_server_state,
    Place.FIRST,
    frozenset({"$facet", "$lookup"}),
    in_transaction=False,
    brings_documents=True,
    is_collectionless=True,
)

STAGES: Final[Mapping[str, StageType]] = {
    "$addFields": _RESHAPING,
    "$bucket": StageType(compile_bucket),
    "$bucketAuto": StageType(compile_bucket_auto),
    "$changeStream": _STREAM,
    "$changeStreamSplitLargeEvent": StageType(refuse_change_stream),
    "$collStats": _STATISTICS,
    "$count": StageType(compile_count),
    "$currentOp": _SERVER_STATE,
    "$densify": StageType(compile_densify),
    "$documents": StageType(
        compile_documents,
        Place.FIRST,
        frozenset({"$facet"}),
        brings_documents=True,
        is_collectionless=True,
    ),
    "$facet": StageType(compile_facet, refused_in=frozenset({"$facet"})),
    "$fill": StageType(compile_fill),
    "$geoNear": StageType(refuse_geo_near, Place.FIRST, frozenset({"$facet"})),
    "$graphLookup": StageType(compile_graph_lookup),
    "$group": StageType(compile_group),
    "$indexStats": _STATISTICS,
    "$limit": StageType(compile_limit),
    "$listLocalSessions": _SERVER_STATE,
    "$listSearchIndexes": _SEARCH,
    "$listSessions": _STATISTICS,
    "$lookup": StageType(compile_lookup),
    "$match": StageType(compile_filter),
    "$merge": StageType(parse_merge, Place.LAST, _EVERYWHERE_ELSE, in_transaction=False),
    "$out": StageType(parse_out, Place.LAST, _EVERYWHERE_ELSE, in_transaction=False),
    "$planCacheStats": _STATISTICS,
    "$project": _RESHAPING,
    "$redact": _RESHAPING,
    "$replaceRoot": _RESHAPING,
    "$replaceWith": _RESHAPING,
    "$sample": StageType(compile_sample),
    "$search": _SEARCH,
    "$searchMeta": _SEARCH,
    "$set": _RESHAPING,
    "$setWindowFields": StageType(compile_set_window_fields),
    "$skip": StageType(compile_skip),
    "$sort": StageType(compile_sort_stage),
    "$sortByCount": StageType(compile_sort_by_count),
    "$unionWith": StageType(compile_union_with),
    "$unset": _RESHAPING,
    "$unwind": StageType(compile_unwind),
    "$vectorSearch": _SEARCH,
}
