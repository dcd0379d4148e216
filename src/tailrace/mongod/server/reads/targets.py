"""Resolve what a read names: a collection, or a view and its stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Binary
from bson.binary import UUID_SUBTYPE

from tailrace.bson.compare import type_name
from tailrace.bson.values import Symbol, is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection, View
from tailrace.query.collation import Collation

_MAX_VIEW_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class Target:
    """A namespace, resolved in one state of the catalog."""

    database: str
    name: str
    collection: Collection | None
    """The collection with the documents; None if it does not exist."""
    view: View | None = None
    stages: tuple[Mapping[str, Any], ...] = ()
    """The stages of the view, and of the views below it."""

    @property
    def ns(self) -> str:
        """The name that replies show."""
        return f"{self.database}.{self.name}"

    @property
    def has_only_records(self) -> bool:
        """Whether its documents are exactly the records of a collection."""
        return self.view is None and (self.collection is None or not self.collection.is_timeseries)

    def pipeline_of(self, stages: Sequence[Any]) -> tuple[Any, ...]:
        """The stages of the view and these after them; `$collStats` is about the view itself."""
        first = stages[0] if stages else None
        is_about_view = isinstance(first, Mapping) and "$collStats" in first
        return tuple(stages) if is_about_view else (*self.stages, *stages)

    def collation(self, given: Mapping[str, Any] | None) -> Collation | None:
        """The collation of the command, or else of the view or the collection."""
        if self.view is not None:
            own = _parsed(self.view.collation)
            if given is not None and Collation.parse(given) != own:
                raise _other_collation()
            return own
        if given is not None:
            return Collation.parse(given)
        return None if self.collection is None else self.collection.collation


def check_same_collation(catalog: Catalog, ns: str, collation: Collation | None) -> None:
    """Refuse a view or a time series, named in a pipeline, whose collation is not that of the command."""
    view, collection = catalog.view(ns), catalog.collection(ns)
    if view is not None and _parsed(view.collation) != collation:
        raise _other_collation()
    if collection is not None and collection.is_timeseries and collection.collation != collation:
        raise _other_collation()


def _parsed(spec: Mapping[str, Any] | None) -> Collation | None:
    return None if spec is None else Collation.parse(spec)


def _other_collation() -> CommandError:
    return CommandError(ErrorCode.OptionNotSupportedOnView, "Cannot override a view's default collation")


def resolve(catalog: Catalog, database: str, name: str) -> Target:
    """Resolve views down to their collection."""
    view = first = catalog.view(f"{database}.{name}")
    stages: tuple[Mapping[str, Any], ...] = ()
    below = name
    for _ in range(_MAX_VIEW_DEPTH):
        if view is None:
            return Target(database, name, catalog.collection(f"{database}.{below}"), first, stages)
        stages = (*view.pipeline, *stages)
        below = view.view_on
        view = catalog.view(f"{database}.{below}")
    reason = f"View depth too deep or view cycle detected; maximum depth is {_MAX_VIEW_DEPTH}"
    raise CommandError(ErrorCode.ViewDepthLimitExceeded, reason)


def resolve_named(catalog: Catalog, database: str, named: object) -> Target:
    """The same for a collection's name or UUID, as a command's first field has it."""
    if isinstance(named, Binary) and named.subtype == UUID_SUBTYPE and len(named) == 16:
        collection = catalog.by_uuid(bytes(named))
        if collection is None or collection.database != database:
            raise CommandError(
                ErrorCode.NamespaceNotFound, f"Unable to resolve {named.as_uuid()} in the database {database}"
            )
        return Target(database, collection.name, collection)
    if isinstance(named, Symbol):
        named = named.text
    if not is_string(named):
        reason = f"collection name has invalid type {type_name(named)}"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    if not named or named.startswith(".") or "\0" in named:
        reason = f"Invalid namespace specified '{database}.{named}'"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    return resolve(catalog, database, named)
