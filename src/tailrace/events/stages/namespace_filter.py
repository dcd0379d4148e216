"""Which namespaces a stream can see, by its scope.

Matching is always by bytes, with any collation of the user's stages. Only the prefix ``system.`` of a
collection name is special, and ``admin``, ``config`` and ``local`` are never part of a cluster-wide stream.
"""

import re
from typing import Final

from tailrace.events.scope import Scope, ScopeKind

_USER_COLLECTION: Final = r"(?!(\$|system\.))"
_WITH_SYSTEM_EVENTS: Final = r"(?!(\$|system\.(?!(js\Z|resharding\.|buckets\.|views\Z))))"
_USER_DATABASE: Final = r"(?!(admin|config|local)\.)[^.]+"


class NamespaceFilter:
    """The namespaces of one stream.

    >>> shop = NamespaceFilter(Scope.parse_ns("shop"))
    >>> shop.sees("shop.orders"), shop.sees("shop.system.users"), shop.sees("shopping.orders")
    (True, False, False)
    """

    def __init__(self, scope: Scope, *, show_system_events: bool = False) -> None:
        names = _WITH_SYSTEM_EVENTS if show_system_events else _USER_COLLECTION
        if scope.kind is ScopeKind.COLLECTION:
            self._ns = re.compile(re.escape(f"{scope.db}.{scope.coll}") + r"\Z")
            self._command = re.compile(re.escape(f"{scope.db}.$cmd") + r"\Z")
            self._name = re.compile(re.escape(scope.coll or "") + r"\Z")
        elif scope.kind is ScopeKind.DATABASE:
            self._ns = re.compile(re.escape(scope.db) + r"\." + names)
            self._command = re.compile(re.escape(f"{scope.db}.$cmd") + r"\Z")
            self._name = re.compile(names)
        else:
            self._ns = re.compile(_USER_DATABASE + r"\." + names)
            self._command = re.compile(_USER_DATABASE + r"\.\$cmd\Z")
            self._name = re.compile(names)
        database = re.escape(scope.db) if scope.kind is ScopeKind.DATABASE else _USER_DATABASE
        self._views = None
        if scope.kind is not ScopeKind.COLLECTION:
            self._views = re.compile(database + r"\.system\.views\Z")

    def sees(self, ns: str) -> bool:
        """Return whether document changes in this namespace are visible."""
        return self._ns.match(ns) is not None

    def sees_commands(self, ns: str) -> bool:
        """Return whether this is the command namespace of a watched database."""
        return self._command.match(ns) is not None

    def sees_collection(self, name: str) -> bool:
        """Return whether a command on the collection of this name is visible."""
        return self._name.match(name) is not None

    def sees_views(self, ns: str) -> bool:
        """Return whether this is where a watched database stores its view definitions."""
        return self._views is not None and self._views.match(ns) is not None
