"""The table of all stages by name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tailrace.mongod.language.aggregation.joins.graph_lookup import check_graph_lookup, compile_graph_lookup
from tailrace.mongod.language.aggregation.joins.lookup import check_lookup, compile_lookup
from tailrace.mongod.language.aggregation.joins.union_with import check_union_with, compile_union_with
from tailrace.mongod.language.aggregation.output.merge import check_merge, parse_merge
from tailrace.mongod.language.aggregation.output.out import check_out, parse_out
from tailrace.mongod.language.aggregation.stage import HOLDERS, Place, StageType
from tailrace.mongod.language.aggregation.stages.bucket import compile_bucket
from tailrace.mongod.language.aggregation.stages.bucket_auto import compile_bucket_auto
from tailrace.mongod.language.aggregation.stages.count import compile_count
from tailrace.mongod.language.aggregation.stages.densify import compile_densify
from tailrace.mongod.language.aggregation.stages.documents import compile_documents
from tailrace.mongod.language.aggregation.stages.facet import check_facet, compile_facet
from tailrace.mongod.language.aggregation.stages.fill import compile_fill
from tailrace.mongod.language.aggregation.stages.group import compile_group
from tailrace.mongod.language.aggregation.stages.limit_skip import compile_limit, compile_skip
from tailrace.mongod.language.aggregation.stages.pass_through import (
    check_stream_stage,
    compile_change_stream,
    compile_identity,
    compile_split_large_event,
)
from tailrace.mongod.language.aggregation.stages.refused import (
    FAULTS,
    check_query_stats,
    check_search,
    compile_refused,
    refuse_internal,
)
from tailrace.mongod.language.aggregation.stages.sample import compile_sample
from tailrace.mongod.language.aggregation.stages.server_state import check_server_state, compile_server_state
from tailrace.mongod.language.aggregation.stages.set_window_fields import compile_set_window_fields
from tailrace.mongod.language.aggregation.stages.single_document import compile_filter, compile_reshaping
from tailrace.mongod.language.aggregation.stages.sort import compile_sort_stage
from tailrace.mongod.language.aggregation.stages.sort_by_count import compile_sort_by_count
from tailrace.mongod.language.aggregation.stages.unwind import compile_unwind
from tailrace.query.stage_names import BETWEEN_SERVERS

INTERNAL: Final = BETWEEN_SERVERS
_EVERYWHERE_ELSE: Final = frozenset(HOLDERS)
_RESHAPING: Final = StageType(compile_reshaping)
_SEARCH: Final = StageType(refuse_internal, check_search)
_INTERNAL: Final = StageType(refuse_internal)
_REFUSED_STATE: Final = StageType(compile_refused, place=Place.FIRST, is_collectionless=True)
_IDENTITY: Final = StageType(compile_identity)
_STREAM: Final = StageType(
    compile_change_stream,
    check_stream_stage,
    Place.FIRST,
    _EVERYWHERE_ELSE,
    in_transaction=False,
)
_STATISTICS: Final = StageType(
    compile_server_state,
    check_server_state,
    Place.FIRST,
    frozenset({"$facet"}),
    in_transaction=False,
    brings_documents=True,
)
_SERVER_STATE: Final = StageType(
    compile_server_state,
    check_server_state,
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
    "$changeStreamSplitLargeEvent": StageType(compile_split_large_event, check_stream_stage),
    "$collStats": _STATISTICS,
    "$count": StageType(compile_count),
    "$currentOp": _SERVER_STATE,
    "$densify": StageType(compile_densify),
    "$documents": StageType(
        compile_documents,
        place=Place.FIRST,
        refused_in=frozenset({"$facet"}),
        brings_documents=True,
        is_collectionless=True,
    ),
    "$facet": StageType(compile_facet, check_facet, refused_in=frozenset({"$facet"})),
    "$fill": StageType(compile_fill),
    "$graphLookup": StageType(compile_graph_lookup, check_graph_lookup),
    "$group": StageType(compile_group),
    "$indexStats": _STATISTICS,
    "$limit": StageType(compile_limit),
    "$listLocalSessions": _SERVER_STATE,
    "$listSearchIndexes": _SEARCH,
    "$listSessions": _STATISTICS,
    "$lookup": StageType(compile_lookup, check_lookup),
    "$match": StageType(compile_filter),
    "$merge": StageType(parse_merge, check_merge, Place.LAST, _EVERYWHERE_ELSE, in_transaction=False),
    "$out": StageType(parse_out, check_out, Place.LAST, _EVERYWHERE_ELSE, in_transaction=False),
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
    "$unionWith": StageType(compile_union_with, check_union_with),
    "$unset": _RESHAPING,
    "$unwind": StageType(compile_unwind),
    "$vectorSearch": _SEARCH,
    **{name: StageType(compile_refused) for name in FAULTS},
    "$geoNear": StageType(compile_refused, place=Place.FIRST, refused_in=frozenset({"$facet"})),
    "$listCachedAndActiveUsers": _REFUSED_STATE,
    "$listCatalog": StageType(compile_refused, place=Place.FIRST),
    "$operationMetrics": StageType(refuse_internal),
    "$queryStats": replace(_REFUSED_STATE, check=check_query_stats),
    "$_internalShardServerInfo": _REFUSED_STATE,
    "$_internalInhibitOptimization": _IDENTITY,
    "$_internalShredDocuments": _IDENTITY,
    **dict.fromkeys(INTERNAL, _INTERNAL),
}
