"""Documents in which a missing field has a place, and arrays in which a missing element has one.

A field that a stage removes, or computes as missing, keeps its place in a server's document: a later stage
that sets it puts it there, not at the end. Here such a document is a dict that knows its places besides; one
without missing fields is a plain dict, and what copies a document as a dict loses the places.

>>> document = in_places({"a": 1, "c": 3}, ["a", "b", "c"])
>>> with_field(document, "b", 2)
{'a': 1, 'b': 2, 'c': 3}

The same holds for arrays: an inclusion of nested fields leaves nothing of an element that is not a document.

>>> array = array_of([{"b": 1}, MISSING])
>>> array, elements_of(array)
([{'b': 1}], [{'b': 1}, MISSING])
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.query.missing import MISSING


class PlacedDocument(dict[str, Any]):
    """A document with places for all of its fields, and for some that are missing."""

    __slots__ = ("places",)

    def __init__(self, fields: Mapping[str, Any], places: Sequence[str]) -> None:
        super().__init__(fields)
        self.places = places
        """All names in order."""


def places_of(document: dict[str, Any]) -> list[str]:
    """The names of a document in order, also those of missing fields that have a place."""
    return list(document.places if isinstance(document, PlacedDocument) else document)


def in_places(fields: Mapping[str, Any], places: Sequence[str]) -> dict[str, Any]:
    """The document of some fields in the order of their places; every field has one."""
    ordered = {name: fields[name] for name in places if name in fields}
    return ordered if len(ordered) == len(places) else PlacedDocument(ordered, places)


def with_field(document: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The document with one field set, or removed if the value is `MISSING`."""
    is_placed = isinstance(document, PlacedDocument)
    if not is_placed and value is not MISSING:
        return {**document, name: value}
    places = places_of(document)
    if name not in places:
        places.append(name)
    fields = dict(document)
    if value is MISSING:
        fields.pop(name, None)
    else:
        fields[name] = value
    return in_places(fields, places)


class PlacedArray(list[Any]):
    """An array with places for all of its elements, and for some that are missing."""

    __slots__ = ("elements",)

    def __init__(self, elements: list[Any]) -> None:
        super().__init__([element for element in elements if element is not MISSING])
        self.elements = elements
        """All elements in order, `MISSING` among them."""


def elements_of(array: list[Any]) -> list[Any]:
    """The elements of an array in order, also the missing ones that have a place."""
    return array.elements if isinstance(array, PlacedArray) else array


def array_of(elements: list[Any]) -> list[Any]:
    """The array of some elements, `MISSING` among them."""
    return PlacedArray(elements) if any(element is MISSING for element in elements) else elements
