"""The other collections that a pipeline names, without running it."""

from collections.abc import Iterator
from typing import Any

from tailrace.bson.values import is_string
from tailrace.mongod.server.reads.targets import resolve
from tailrace.mongod.store.catalog import Catalog


def named_collections(pipeline: Any) -> Iterator[str]:
    """The collections of `$lookup`, `$graphLookup` and `$unionWith`, in sub-pipelines, too.

    >>> list(named_collections([{"$unionWith": "a"}, {"$facet": {"x": [{"$lookup": {"from": "b"}}]}}]))
    ['a', 'b']
    """
    for stage in pipeline if isinstance(pipeline, list) else ():
        for operator, spec in stage.items() if isinstance(stage, dict) else ():
            if operator == "$facet" and isinstance(spec, dict):
                for inner in spec.values():
                    yield from named_collections(inner)
            elif operator in ("$lookup", "$graphLookup", "$unionWith"):
                fields = spec if isinstance(spec, dict) else {"coll": spec}
                name = fields.get("from", fields.get("coll"))
                if is_string(name):
                    yield name
                yield from named_collections(fields.get("pipeline"))


def check_named_collections(catalog: Catalog, database: str, pipeline: Any) -> None:
    """Raise if one of them cannot be read in this state."""
    for name in named_collections(pipeline):
        resolve(catalog, database, name)
