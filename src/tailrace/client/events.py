"""Events as objects with named fields.

Every event is accepted: an unknown `operationType` is a string like the others, absent fields are None, and
fields without a name here are in `document`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import Timestamp

from tailrace.client.options import Document


@dataclass(frozen=True, slots=True)
class EventNamespace:
    """The namespace of an event: a database, or a collection in it."""

    database: str | None
    collection: str | None

    @classmethod
    def of(cls, value: object) -> "EventNamespace | None":
        """Read an `ns` or `to` field; other fields in it are ignored."""
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
        """Read an `updateDescription` field."""
        if not isinstance(value, Mapping):
            return None
        return cls(
            value.get("updatedFields") or {},
            tuple(value.get("removedFields") or ()),
            tuple(value.get("truncatedArrays") or ()),
            value.get("disambiguatedPaths"),
        )


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event of a change stream."""

    document: Document
    """the event that was read"""
    token: Document
    operation_type: str | None
    namespace: EventNamespace | None
    to: EventNamespace | None
    document_key: Document | None
    full_document: Document | None
    full_document_before_change: Document | None
    update_description: UpdateDescription | None
    operation_description: Document | None
    cluster_time: Timestamp | None
    wall_time: datetime | None
    collection_uuid: Any

    @classmethod
    def of(cls, document: Document) -> "EventRecord":
        """Read a document of a stream.

        >>> event = EventRecord.of({"_id": {"_data": "82"}, "operationType": "shrink", "ns": {"db": "d"}})
        >>> event.operation_type, str(event.namespace), event.full_document
        ('shrink', 'd', None)
        """
        get = document.get
        return cls(
            document=document,
            token=document["_id"],
            operation_type=get("operationType"),
            namespace=EventNamespace.of(get("ns")),
            to=EventNamespace.of(get("to")),
            document_key=get("documentKey"),
            full_document=get("fullDocument"),
            full_document_before_change=get("fullDocumentBeforeChange"),
            update_description=UpdateDescription.of(get("updateDescription")),
            operation_description=get("operationDescription"),
            cluster_time=get("clusterTime"),
            wall_time=get("wallTime"),
            collection_uuid=get("collectionUUID"),
        )
