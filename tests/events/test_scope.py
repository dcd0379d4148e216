"""Scopes and their names."""

import pytest

from tailrace.errors import CommandError
from tailrace.events.scope import Namespace, Scope, ScopeKind


@pytest.mark.parametrize(
    ("text", "kind", "db", "coll", "cursor_ns"),
    [
        ("shop", ScopeKind.DATABASE, "shop", None, "shop.$cmd.aggregate"),
        ("shop.orders", ScopeKind.COLLECTION, "shop", "orders", "shop.orders"),
        ("shop.a.b..c", ScopeKind.COLLECTION, "shop", "a.b..c", "shop.a.b..c"),
        ("shop.system.views", ScopeKind.COLLECTION, "shop", "system.views", "shop.system.views"),
        ("ä.ö", ScopeKind.COLLECTION, "ä", "ö", "ä.ö"),
        ("admin", ScopeKind.DATABASE, "admin", None, "admin.$cmd.aggregate"),
    ],
)
def test_scope_of_a_name(text: str, kind: ScopeKind, db: str, coll: str | None, cursor_ns: str) -> None:
    scope = Scope.parse_ns(text)
    assert (scope.kind, scope.db, scope.coll, scope.cursor_ns) == (kind, db, coll, cursor_ns)
    assert scope.namespace == (None if coll is None else Namespace(db, coll))


def test_cluster() -> None:
    scope = Scope.of("admin", all_changes_for_cluster=True)
    assert scope == Scope.cluster()
    assert scope.cursor_ns == "admin.$cmd.aggregate"
    assert scope.namespace is None


def test_the_cluster_flag_changes_only_the_scope_of_the_admin_database() -> None:
    assert Scope.of("shop", all_changes_for_cluster=True) == Scope.database("shop")
    assert Scope.of("admin", "x", all_changes_for_cluster=True) == Scope.collection("admin", "x")


IMPOSSIBLE = [
    "",
    ".",
    "shop.",
    ".orders",
    "a b",
    "a/b.c",
    "a\\b",
    'a"',
    "a\0",
    "shop..x",
    "shop.a\0b",
]


@pytest.mark.parametrize("text", [*IMPOSSIBLE, "x" * 64])
def test_impossible_names(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        Scope.parse_ns(text)
    assert caught.value.code == 73


def test_the_length_of_a_database_name_is_counted_in_bytes() -> None:
    assert Scope.parse_ns("x" * 63).db == "x" * 63
    with pytest.raises(CommandError):
        Scope.parse_ns("ä" * 32)


def test_a_namespace_is_split_and_joined_again() -> None:
    namespace = Namespace.parse("shop.orders.archive")
    assert (namespace.db, namespace.coll) == ("shop", "orders.archive")
    assert str(namespace) == "shop.orders.archive"
    with pytest.raises(CommandError):
        Namespace.parse("shop")


def test_only_a_collection_scope_names_a_collection() -> None:
    with pytest.raises(ValueError, match="collection"):
        Scope(ScopeKind.DATABASE, "shop", "orders")
    with pytest.raises(ValueError, match="collection"):
        Scope(ScopeKind.COLLECTION, "shop")


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (Scope.cluster(), "the cluster"),
        (Scope.database("shop"), "database shop"),
        (Scope.collection("shop", "orders"), "collection shop.orders"),
    ],
)
def test_in_words(scope: Scope, words: str) -> None:
    assert str(scope) == words
