r"""Which namespaces are kept: patterns of those to include and to exclude.

A pattern is the name of a database, the name of a collection, a glob or a regular expression between
slashes: ``shop``, ``shop.orders``, ``shop.order*``, ``*.audit``, ``/^tenant_[0-9]+\.orders$/``. A glob has a
part for the database and one for the collection, and the first dot separates them; ``*`` is any text and
``?`` any character. A regular expression is searched in ``database.collection``.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tailrace.errors import UsageError

_WILD: Final = frozenset("*?")
_BUCKETS: Final = "system.buckets."
"""The collection with the data of a time series has its name after this."""
_ALL: Final = "*"


@dataclass(frozen=True)
class NamespacePattern:
    """One pattern; `UsageError` if it is none.

    >>> NamespacePattern("shop.order*").matches("shop", "orders"), NamespacePattern("shop").covers("shop")
    (True, True)
    """

    text: str

    def __post_init__(self) -> None:
        if self._is_expression:
            try:
                _ = self._whole
            except re.error as error:
                raise UsageError(f"{self.text} is not a regular expression: {error}") from None
        elif not self._database or self.text.endswith("."):
            raise UsageError(
                f"{self.text!r} names no namespace; give a database, database.collection, a glob such as "
                "shop.order* or a regular expression between slashes"
            )

    @property
    def is_name(self) -> bool:
        return not self._is_expression and not _WILD.intersection(self.text)

    @property
    def database(self) -> str | None:
        """The database of everything that matches; None if there may be several."""
        is_one = not self._is_expression and not _WILD.intersection(self._database)
        return self._database if is_one else None

    @property
    def collection(self) -> str | None:
        """The collection, if the pattern is the name of one."""
        return self._collection if self.is_name and self._collection != _ALL else None

    @property
    def namespace(self) -> str | None:
        """The collection that it names; None if it may match several."""
        return self.text if self.collection is not None else None

    @property
    def _is_expression(self) -> bool:
        return len(self.text) > 1 and self.text[0] == self.text[-1] == "/"

    @property
    def _database(self) -> str:
        return self.text.partition(".")[0]

    @property
    def _collection(self) -> str:
        """That of a pattern without one is any."""
        return self.text.partition(".")[2] or _ALL

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.text[1:-1])

    @cached_property
    def _parts(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(_glob(self._database)), re.compile(_glob(self._collection))

    def matches(self, database: str, collection: str) -> bool:
        """Whether a collection has such a name."""
        if self._is_expression:
            return self._whole.search(f"{database}.{collection}") is not None
        databases, collections = self._parts
        return databases.fullmatch(database) is not None and collections.fullmatch(collection) is not None

    def covers(self, database: str | None) -> bool:
        """Whether all collections of a database, or of all databases, certainly have such names."""
        if self._is_expression or self._collection != _ALL:
            return False
        return self._database == _ALL if database is None else self._parts[0].fullmatch(database) is not None

    def includes(self, other: "NamespacePattern") -> bool:
        """Whether everything that the other matches certainly matches this one."""
        if self == other or self.covers(None):
            return True
        if other.database is None:
            return False
        return self.covers(other.database) or (
            other.is_name and self.matches(other.database, other._collection)
        )

    def is_apart_from(self, other: "NamespacePattern") -> bool:
        """Whether certainly nothing matches both."""
        if self.collection is not None:
            return not other.matches(self._database, self.collection)
        return None not in (self.database, other.database) and self.database != other.database

    def may_meet(self, database: str) -> bool:
        """Whether some collection of a database may have such a name."""
        return self._is_expression or self._parts[0].fullmatch(database) is not None

    def query(self) -> dict[str, Any] | None:
        """A filter on the field `ns` of oplog entries; None if a server may read the expression otherwise."""
        if self._is_expression:
            return None
        if self.collection is not None:
            return {"ns": {"$in": [self.text, f"{self._database}.{_BUCKETS}{self._collection}"]}}
        database, collection = _glob(self._database, "[^.]"), _glob(self._collection)
        return {"ns": {"$regex": rf"^{database}\.(system\.buckets\.)?{collection}$", "$options": "s"}}

    def stage(self) -> dict[str, Any]:
        """A condition on events."""
        if self._is_expression:
            name = {"$concat": ["$ns.db", ".", {"$ifNull": ["$ns.coll", ""]}]}
            return {"$expr": {"$regexMatch": {"input": {"$ifNull": [name, ""]}, "regex": self.text[1:-1]}}}
        found: dict[str, Any] = {}
        for field, text in (("ns.db", self._database), ("ns.coll", self._collection)):
            if _WILD.intersection(text) and text != _ALL:
                found[field] = {"$regex": f"^{_glob(text)}$", "$options": "s"}
            elif text != _ALL:
                found[field] = text
        return found


def _glob(text: str, any_character: str = ".") -> str:
    parts = {"*": f"{any_character}*", "?": any_character}
    return "".join(parts.get(character) or re.escape(character) for character in text)


@dataclass(frozen=True)
class NamespaceChoice:
    """What is kept: what one of ``include`` matches, and none of ``exclude``.

    Without ``include`` that is everything except what is excluded.

    >>> choice = NamespaceChoice.of(["shop"], ["shop.audit"])
    >>> choice.keeps("shop", "orders"), choice.keeps("shop", "audit"), choice.keeps_all("shop")
    (True, False, False)
    """

    include: tuple[NamespacePattern, ...] = ()
    exclude: tuple[NamespacePattern, ...] = ()

    @classmethod
    def of(cls, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> "NamespaceChoice":
        """Read patterns; `UsageError` if one is none."""
        return cls(*(tuple(map(NamespacePattern, dict.fromkeys(texts))) for texts in (include, exclude)))

    @property
    def is_free(self) -> bool:
        """Whether everything is kept."""
        return not self.exclude and (not self.include or any(found.covers(None) for found in self.include))

    @property
    def is_one_name(self) -> bool:
        """Whether it is a database or a collection, and nothing else."""
        return len(self.include) == 1 and not self.exclude and self.include[0].is_name

    @property
    def database(self) -> str | None:
        """The database that everything is in; None if there may be several."""
        found = self.databases
        return found.pop() if found is not None and len(found) == 1 else None

    @property
    def databases(self) -> set[str] | None:
        """The databases that everything is in; None if there may be others.

        >>> choice = NamespaceChoice.of(["shop.order*", "stock.items", "stock.places"], ["stock.places"])
        >>> sorted(choice.databases or ()), sorted(choice.collections)
        (['shop', 'stock'], ['stock.items'])
        """
        found = {pattern.database for pattern in self.include}
        return {name for name in found if name is not None} if found and None not in found else None

    @property
    def collections(self) -> set[str]:
        """The collections that it names, without those that it excludes."""
        named = {pattern.namespace for pattern in self.include}
        return {name for name in named if name is not None and self.keeps(*name.split(".", 1))}

    def keeps(self, database: str, collection: str | None) -> bool:
        """Whether the events of a collection are kept, or those of a database that name no collection."""
        if not collection:
            return self._may_keep(database)
        name = collection.removeprefix(_BUCKETS)
        if any(found.matches(database, name) for found in self.exclude):
            return False
        return not self.include or any(found.matches(database, name) for found in self.include)

    def keeps_all(self, database: str | None) -> bool:
        """Whether everything of a database is certainly kept; None is the whole deployment."""
        if any(database is None or found.may_meet(database) for found in self.exclude):
            return False
        return not self.include or any(found.covers(database) for found in self.include)

    def _may_keep(self, database: str) -> bool:
        if any(found.covers(database) for found in self.exclude):
            return False
        return not self.include or any(found.may_meet(database) for found in self.include)

    def is_within(self, other: "NamespaceChoice") -> bool:
        """Whether the other certainly keeps everything that this one keeps."""
        if other.is_free or self == other:
            return True
        if any(
            left not in self.exclude
            and not (self.include and all(pattern.is_apart_from(left) for pattern in self.include))
            for left in other.exclude
        ):
            return False
        return not other.include or (
            bool(self.include)
            and all(any(found.includes(pattern) for found in other.include) for pattern in self.include)
        )

    def query(self) -> dict[str, Any]:
        """A filter on oplog entries that lets everything pass which is kept, and more."""
        conditions: list[dict[str, Any]] = []
        include = [found.query() for found in self.include]
        if include and all(condition is not None for condition in include):
            conditions.append({"$or": [condition for condition in include if condition is not None]})
        exclude = [condition for found in self.exclude if (condition := found.query()) is not None]
        if exclude:
            conditions.append({"$nor": exclude})
        if not conditions:
            return {}
        # Commands and no-ops have other namespaces than what they change.
        return {"$or": [{"op": {"$nin": ["i", "u", "d"]}}, {"$and": conditions}]}

    def stage(self) -> dict[str, Any]:
        """The condition of a `$match` that shows the events of what is kept.

        If everything is in one database, the stream watches that.
        """
        found: dict[str, Any] = {}
        names = [pattern.collection for pattern in self.include]
        if self.database is not None and None not in names:
            found["ns.coll"] = {"$in": names}
        elif self.include:
            found["$or"] = [pattern.stage() for pattern in self.include]
        if self.exclude:
            found["$nor"] = [pattern.stage() for pattern in self.exclude]
        return found

    def as_json(self) -> dict[str, list[str]]:
        return {
            "include": [found.text for found in self.include],
            "exclude": [found.text for found in self.exclude],
        }

    def __str__(self) -> str:
        kept = ", ".join(found.text for found in self.include) or "everything"
        left = ", ".join(found.text for found in self.exclude)
        return f"{kept} except {left}" if left else kept


EVERYTHING_KEPT: Final = NamespaceChoice()


@dataclass(frozen=True, slots=True)
class KeptPeriods:
    """The choices of a history, each with the cluster time after which it was in force, in order."""

    periods: tuple[tuple[int, NamespaceChoice], ...] = ((0, EVERYTHING_KEPT),)

    @property
    def now(self) -> NamespaceChoice:
        return self.periods[-1][1]

    def since(self, keeps: Callable[[NamespaceChoice], bool]) -> int | None:
        """The cluster time after which all choices keep what is asked for; None if the newest does not."""
        found: int | None = None
        for since, choice in self.periods:
            found = (since if found is None else found) if keeps(choice) else None
        return found

    def widened(self, choice: NamespaceChoice, since: int) -> "KeptPeriods":
        """With a choice from a cluster time on, in the place of those that began there or later."""
        earlier = tuple(period for period in self.periods if period[0] < since)
        return KeptPeriods((*earlier, (since, choice)))

    def to_text(self) -> str:
        """For the configuration of a table."""
        return json.dumps([{"since": str(since), **choice.as_json()} for since, choice in self.periods])

    @classmethod
    def from_text(cls, text: str | None) -> "KeptPeriods":
        if text is None:
            return cls()
        found: Sequence[Mapping[str, Any]] = json.loads(text)
        return cls(
            tuple((int(one["since"]), NamespaceChoice.of(one["include"], one["exclude"])) for one in found)
        )
