"""Stages that reshape or filter single documents, compiled to functions of a document.

>>> stage = compile_stage("$project", {"who": "$user.name", "_id": 0})
>>> stage({"_id": 1, "user": {"name": "Ada"}})
{'who': 'Ada'}

A stage never changes its input, but its result may share parts with it. `$match` and `$redact` return None
for a document that they remove.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions.scope import Collating
from tailrace.query.reshape.add_fields import compile_add_fields
from tailrace.query.reshape.match import compile_match_stage
from tailrace.query.reshape.project import compile_project
from tailrace.query.reshape.redact import compile_redact
from tailrace.query.reshape.replace_root import compile_replace_root, compile_replace_with
from tailrace.query.reshape.stage import Stage, StageContext
from tailrace.query.reshape.unset import compile_unset

__all__ = ["STAGE_NAMES", "Stage", "compile_stage"]

_STAGES: Final[dict[str, Callable[[str, Any, StageContext], Stage]]] = {
    "$addFields": compile_add_fields,
    "$match": compile_match_stage,
    "$project": compile_project,
    "$redact": compile_redact,
    "$replaceRoot": compile_replace_root,
    "$replaceWith": compile_replace_with,
    "$set": compile_add_fields,
    "$unset": compile_unset,
}
STAGE_NAMES: Final = frozenset(_STAGES)


def compile_stage(
    name: str,
    spec: Any,
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Collating | None = None,
    dialect: Dialect = CURRENT_DIALECT,
    reads_whole: bool = False,
    is_query: bool = False,
) -> Stage:
    """Compile a stage; all errors in its specification are raised here.

    ``dialect`` has the rules of a release. ``reads_whole`` is for documents that are read whole, as events
    are; a reader of collections may read only the parts that a projection includes. ``is_query`` is for a
    stage that is a part of the query that reads a collection.
    """
    compiler = _STAGES.get(name)
    if compiler is None:
        raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")
    return compiler(name, spec, StageContext(variables or {}, collation, dialect, reads_whole, is_query))
