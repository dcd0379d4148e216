"""Resources, and what is allowed on them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_ANY_ACTION: Final = "anyAction"
_BUCKETS: Final = "system.buckets."
_OUTSIDE_OF_ANY_DATABASE: Final = frozenset({"local", "config"})
"""Privileges on all databases do not hold in these."""


class Resource(NamedTuple):
    """What a privilege is on."""

    kind: str
    database: str = ""
    collection: str = ""

    def to_document(self) -> dict[str, Any]:
        if self.kind == _NAMESPACE:
            return {"db": self.database, "collection": self.collection}
        if self.kind == _IN_BUCKETS:
            in_database = {"db": self.database} if self.database else {}
            return {**in_database, "system_buckets": self.collection}
        return {self.kind: True}


_NAMESPACE: Final = "namespace"
_IN_BUCKETS: Final = "system_buckets"
CLUSTER: Final = Resource("cluster")
ANY_RESOURCE: Final = Resource("anyResource")
ALL_DATABASES: Final = Resource(_NAMESPACE)
"""All collections of all databases but local and config, without system collections."""


def namespace(database: str, collection: str = "") -> Resource:
    """A collection; without a name, the database with all its collections but system collections."""
    return Resource(_NAMESPACE, database, collection)


def buckets(database: str, collection: str = "") -> Resource:
    """The buckets of a time-series collection, or of all."""
    return Resource(_IN_BUCKETS, database, collection)


def _covering(resource: Resource) -> Iterator[Resource]:
    """The resources on which a privilege holds for this one, too."""
    yield ANY_RESOURCE
    yield resource
    kind, database, collection = resource
    if kind != _NAMESPACE or not database:
        return
    is_ordinary = not collection.startswith("system.") and not (
        database == "local" and collection.startswith("replset.")
    )
    if is_ordinary:
        if database not in _OUTSIDE_OF_ANY_DATABASE:
            yield ALL_DATABASES
        if collection:
            yield Resource(_NAMESPACE, database)
    if collection:
        yield Resource(_NAMESPACE, "", collection)
    if collection.startswith(_BUCKETS):
        bucket = collection.removeprefix(_BUCKETS)
        yield from (Resource(_IN_BUCKETS, db, name) for db in (database, "") for name in (bucket, ""))


class Privileges:
    """What somebody may do."""

    __slots__ = ("_actions", "_known")

    def __init__(self, privileges: Iterable[tuple[Resource, Iterable[str]]] = ()) -> None:
        self._actions: dict[Resource, set[str]] = {}
        for resource, actions in privileges:
            self._actions.setdefault(resource, set()).update(actions)
        self._known: dict[tuple[Resource, str], bool] = {}

    def allow(self, resource: Resource, action: str) -> bool:
        known = self._known.get((resource, action))
        if known is None:
            known = any(
                action in held or _ANY_ACTION in held
                for held in (self._actions.get(covering, ()) for covering in _covering(resource))
            )
            if len(self._known) < _MOST_KNOWN:
                self._known[resource, action] = known
        return known

    def concern_database(self, database: str) -> bool:
        """Whether anything is allowed in a database."""
        return any(
            resource == ANY_RESOURCE
            or (resource.kind == _NAMESPACE and _holds_in(resource, database))
            or (resource.kind == _IN_BUCKETS and resource.database in (database, ""))
            for resource in self._actions
        )

    def concern(self, resource: Resource) -> bool:
        """Whether anything is allowed on a resource."""
        return any(covering in self._actions for covering in _covering(resource))

    def to_documents(self) -> list[dict[str, Any]]:
        return [
            {"resource": resource.to_document(), "actions": sorted(actions)}
            for resource, actions in self._actions.items()
        ]


_MOST_KNOWN: Final = 4096


def _holds_in(resource: Resource, database: str) -> bool:
    if resource == ALL_DATABASES:
        return database not in _OUTSIDE_OF_ANY_DATABASE
    return resource.database in (database, "")


def resource_of(document: Mapping[str, Any]) -> Resource:
    """The resource of a stored privilege."""
    if "system_buckets" in document:
        return buckets(document.get("db", ""), document["system_buckets"])
    if "collection" in document:
        return namespace(document["db"], document["collection"])
    return CLUSTER if document.get("cluster") else ANY_RESOURCE
