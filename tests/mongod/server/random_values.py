"""Values of every BSON type, nested and with the shapes that PyMongo changes."""

import random
from typing import Any

from bson import Code, Int64, ObjectId, Regex

from tailrace.bson.documents import DBPointer, Symbol, Undefined


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kinds: list[Any] = [
        1, Int64(7), 2.5, "text", "ä" * 20, None, True, b"bytes", ObjectId(bytes(12)), Regex("a", "i"),
        Symbol("s"), Undefined(), DBPointer("a.b", ObjectId(bytes(12))), Code("f"), {}, [],
        {"$ref": "c", "$id": 1}, {"$id": 1, "$ref": "c", "x": 1},
    ]  # fmt: skip
    if depth < 3 and rng.random() < 0.4:
        size = rng.choice([1, 3, (60, 20, 3)[depth]])
        items = [random_value(rng, depth + 1) for _ in range(size)]
        form = rng.randrange(3)
        if form == 0:
            return items
        fields = {f"f{number}": item for number, item in enumerate(items)}
        return fields if form == 1 else Code("g", fields)
    return rng.choice(kinds)
