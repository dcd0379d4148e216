"""An index specification as listIndexes shows it: in a fixed order, with fixed types."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Decimal128

from tailrace.bson.values import whole_number
from tailrace.mongod.store.ddl.collection_options import is_true
from tailrace.mongod.store.ddl.key_pattern import BUCKET_KIND, index_kind

_ORDER: Final = (
    "v", "key", "name", "ns", "background", "unique", "hidden", "partialFilterExpression", "sparse",
    "expireAfterSeconds", "storageEngine", "weights", "default_language", "language_override",
    "textIndexVersion", "2dsphereIndexVersion", "bits", "min", "max", "bucketSize", "collation",
    "wildcardProjection", "clustered", "prepareUnique", "originalSpec",
)  # fmt: skip
_ONLY_OF_KIND: Final[Mapping[str, str]] = {
    "textIndexVersion": "text", "2dsphereIndexVersion": "2dsphere", "bits": "2d", "min": "2d", "max": "2d",
}  # fmt: skip


def listed_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that listIndexes shows."""
    kind = index_kind(spec["key"])
    kind = "2dsphere" if kind == BUCKET_KIND else kind
    return {
        field: _TYPES.get(field, _as_is)(spec[field])
        for field in _ORDER
        if field in spec and _ONLY_OF_KIND.get(field, kind) == kind
    }


def _as_is(value: Any) -> Any:
    return value


def _to_double(value: Any) -> float:
    return float(value.to_decimal() if isinstance(value, Decimal128) else value)


_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("background", "unique", "hidden", "sparse", "prepareUnique"), is_true),
    **dict.fromkeys(("expireAfterSeconds", "textIndexVersion", "2dsphereIndexVersion", "bits"), whole_number),
    **dict.fromkeys(("min", "max", "bucketSize"), _to_double),
}
