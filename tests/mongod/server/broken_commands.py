"""Send valid sample commands with random mutations.

Values get other types and sizes; fields are missing, repeated, unknown or deeply nested. Any error is a valid
reply except code 1, which means an internal error of the server.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from tailrace.bson.values import DBPointer, Symbol, Undefined
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document


def check_answers(
    raw: RawClient,
    samples: Sequence[Document],
    number: int,
    *,
    admin: Collection[str],
    rounds: int,
    max_time_ms: int,
) -> None:
    """Mutate a sample repeatedly and send it: each time there is a reply, and no internal error.

    Commands in ``admin`` go to that database, others to `fuzz`. The sample's number is the seed.
    """
    rng = random.Random(number)
    for turn in range(rounds):
        command = broken(rng, samples[number])
        command.setdefault("maxTimeMS", max_time_ms)
        database = "admin" if next(iter(command)) in admin else "fuzz"
        try:
            reply = raw.call({**command, "$db": database})
        except ValueError:  # it cannot be encoded, for example a name with a NUL
            continue
        about = f"sample {number}, turn {turn}: {command}: {reply}"
        assert reply["ok"] in (0.0, 1.0), about
        assert reply.get("code") != 1, about
        assert not [e for e in reply.get("writeErrors", ()) if e["code"] == 1], about
    assert raw.call({"ping": 1})["ok"] == 1.0


def nested(depth: int) -> Document:
    document: Document = {}
    for _ in range(depth):
        document = {"a": document}
    return document


def odd_values(rng: random.Random) -> Any:
    """A value that is probably invalid for the command."""
    return rng.choice([
        None, True, False, 0, 1, -1, 2**31 - 1, Int64(2**63 - 1), Int64(-(2**63)), 0.5, -0.0, float("nan"),
        float("inf"), Decimal128("1E+6000"), Decimal128("sNaN"), "", "$", "a", "a.b", ".a", "a.", "$a", "$$a",
        "system.x", "\0", "x" * 300, "ä€𝄞", [], [[]], [1, "a", None], [{}], {}, {"": 1}, {"$": 1},
        {"a": {"$": 1}}, {"$gt": 1}, {"$set": 1}, {"$where": "1"},
        {"$expr": {"$add": ["$a", "x"]}}, nested(30), nested(150),
        b"", Binary(b"x", 4), Binary(bytes(16), 3), Binary(b"x", 128), ObjectId(), DatetimeMS(0),
        DatetimeMS(2**63 - 1), Timestamp(0, 0), Timestamp(2**32 - 1, 1), Regex("(", ""), Regex("a", "imsxu"),
        Code("f"), Code("f", {"a": 1}), MinKey(), MaxKey(), Symbol("s"), Undefined(),
        DBPointer("a.b", ObjectId()),
        {"$ref": "a", "$id": 1}, {"a": Undefined()}, ["x"] * 1000,
    ])  # fmt: skip


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path inside a command except the root."""
    if path:
        yield path
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from paths(inner, (*path, key))


def broken(rng: random.Random, sample: Document) -> Document:
    """The sample with one to three mutations; its name stays."""
    command: Document = copied(sample)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(paths(command)))
        holder: Any = command
        for key in path[:-1]:
            holder = holder[key]
        kind = rng.randrange(6)
        if kind <= 2:
            holder[path[-1]] = odd_values(rng)
        elif kind == 3 and len(path) > 1:
            del holder[path[-1]]
        elif kind == 4 and isinstance(holder, dict):
            holder[rng.choice(("", "x", "$x", "a.b", "_id", "comment", "collation", "hint"))] = odd_values(
                rng
            )
        elif kind == 5 and isinstance(holder, dict) and len(path) > 1:
            holder[rng.choice(("", "$", "a.", "$x", "é"))] = holder.pop(path[-1])
    return command


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
