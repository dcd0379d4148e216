"""Stages that stand first and show what only the server knows: its operations, sessions, statistics."""

from typing import Any

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage


def compile_server_state(name: str, spec: Any, scope: StageScope) -> Stage:
    """A stage whose documents, and whose checks, are the caller's."""
    context = scope.context

    def run(_rows: Rows) -> Rows:
        for document in scope.services.source(name, spec, context.database, context.collection):
            yield document if document is PAUSE else Row(document)

    return run
