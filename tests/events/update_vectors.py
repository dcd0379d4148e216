"""The update vectors, and a generator of nested diffs."""

from pathlib import Path
from typing import Any

from bson.json_util import CANONICAL_JSON_OPTIONS, loads

from tailrace.bson.documents import encode
from tailrace.bson.raw import DOCUMENT, document, element

_FILE = Path(__file__).parents[1] / "vectors" / "update-descriptions.json"

CASES: list[dict[str, Any]] = loads(
    _FILE.read_text(), json_options=CANONICAL_JSON_OPTIONS.with_options(document_class=dict)
)


def nested_diff(depth: int) -> bytes:
    """Return a diff of one field, nested in ``depth`` documents."""
    raw = encode({"u": {"a": 1}})
    for _ in range(depth):
        raw = document(element(DOCUMENT, b"sa", raw))
    return raw
