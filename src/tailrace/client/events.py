"""Events as objects with named fields, for those who prefer them to documents.

Nothing is refused: an `operationType` of a later server is its text, fields that are not there are None, and
what is not known here is in `document`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import Timestamp

from tailrace.client.options import Document


@dataclass(frozen=True, slots=True)
class Namespace:
    """A database, or a collection in it."""

    database: str | None
    collection: str | None

    @classmethod
    def of(cls, value: object) -> "Namespace | None":
        """What an `ns` or `to` field says; further fields of it do not matter."""
        if not isinstance(value, Mapping):
            return None
        return cls(value.get("db"), value.get("coll"))

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.collection) if part)


@dataclass(frozen=True, slots=True)
class UpdateDescription:
    """What an update changed."""

    updated_fields: Document = field(default_factory=dict)
    removed_fields: tuple[str, ...] = ()
    truncated_arrays: tuple[Document, ...] = ()
    disambiguated_paths: Document | None = None

    @classmethod
    def of(cls, value: object) -> "UpdateDescription | None":
        """What an `updateDescription` field says."""
        if not isinstance(value, Mapping):
            return None
        return cls(
            value.get("updatedFields") or {},
            tuple(value.get("removedFields") or ()),
            tuple(value.get("truncatedArrays") or ()),
            value.get("disambiguatedPaths"),
        )


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One event of a change stream."""

    document: Document
    """the event as it came"""
    token: Document
    operation_type: str | None
    namespace: Namespace | None
    to: Namespace | None
    document_key: Document | None
    full_document: Document | None
    full_document_before_change: Document | None
    update_description: UpdateDescription | None
    operation_description: Document | None
    cluster_time: Timestamp | None
    wall_time: datetime | None
    collection_uuid: Any

    @classmethod
    def of(cls, document: Document) -> "ChangeEvent":
        """The event in a document of a stream.

        >>> event = ChangeEvent.of({"_id": {"_data": "82"}, "operationType": "shrink", "ns": {"db": "d"}})
        >>> event.operation_type, str(event.namespace), event.full_document
        ('shrink', 'd', None)
        """
        get = document.get
        return cls(
            document=document,
            token=document["_id"],
            operation_type=get("operationType"),
            namespace=Namespace.of(get("ns")),
            to=Namespace.of(get("to")),
            document_key=get("documentKey"),
            full_document=get("fullDocument"),
            full_document_before_change=get("fullDocumentBeforeChange"),
            update_description=UpdateDescription.of(get("updateDescription")),
            operation_description=get("operationDescription"),
            cluster_time=get("clusterTime"),
            wall_time=get("wallTime"),
            collection_uuid=get("collectionUUID"),
        )
