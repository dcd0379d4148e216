"""Code that resumes a stream after an event, ready to be copied: PyMongo, Node.js, mongosh, Spark.

The token of a document whose key has a number may have `_typeBits`. Without them a MongoDB does not find the
event of a large long, and refuses the token of a fraction.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_INVALIDATE: Final = "invalidate"


class Snippet(NamedTuple):
    language: str
    code: str


@dataclass(frozen=True, slots=True)
class Token:
    """A resume token, as programs write it."""

    data: str
    type_bits: bytes = b""

    def document(self) -> dict[str, Any]:
        return {"_data": self.data} | ({"_typeBits": self.type_bits} if self.type_bits else {})

    def in_python(self) -> str:
        bits = f', "_typeBits": bytes.fromhex("{self.type_bits.hex()}")' if self.type_bits else ""
        return f'{{"_data": "{self.data}"{bits}}}'

    def in_javascript(self, binary: str) -> str:
        """``binary`` is the code of bytes, with ``%s`` for their base64."""
        bits = f", _typeBits: {binary % base64.b64encode(self.type_bits).decode()}" if self.type_bits else ""
        return f'{{ _data: "{self.data}"{bits} }}'


def resume_code(uri: str, ns: str, token: Token, kind: str) -> list[Snippet]:
    """Code for a stream of a collection, a database ("shop") or everything ("").

    ``kind`` is that of the token: after an invalidation, streams are started, not resumed.
    """
    database, _, collection = ns.partition(".")
    is_start = kind == _INVALIDATE
    option = "startAfter" if is_start else "resumeAfter"
    return [
        Snippet("PyMongo", _pymongo(uri, database, collection, token, is_start=is_start)),
        Snippet("Node.js", _node(uri, database, collection, token, option)),
        Snippet("mongosh", _mongosh(uri, database, collection, token, option)),
        Snippet("Spark", _spark(uri, ns, token, option)),
    ]


def _pymongo(uri: str, database: str, collection: str, token: Token, *, is_start: bool) -> str:
    names = "".join(f"[{json.dumps(name)}]" for name in (database, collection) if name)
    option = "start_after" if is_start else "resume_after"
    return f"""from pymongo import MongoClient

with MongoClient({json.dumps(uri)}) as client:
    with client{names}.watch({option}={token.in_python()}) as stream:
        for event in stream:
            print(event)
"""


def _node(uri: str, database: str, collection: str, token: Token, option: str) -> str:
    place = "client"
    if database:
        place += f".db({json.dumps(database)})"
    if collection:
        place += f".collection({json.dumps(collection)})"
    return f"""const {{ MongoClient }} = require("mongodb");

const client = new MongoClient({json.dumps(uri)});

async function main() {{
  const stream = {place}.watch([], {{ {option}: {token.in_javascript('Buffer.from("%s", "base64")')} }});
  for await (const event of stream) {{
    console.log(JSON.stringify(event));
  }}
}}

main();
"""


def _mongosh(uri: str, database: str, collection: str, token: Token, option: str) -> str:
    place = "db.getMongo()"
    if database:
        place += f".getDB({json.dumps(database)})"
    if collection:
        place += f".getCollection({json.dumps(collection)})"
    return f"""// mongosh {json.dumps(uri)}
stream = {place}.watch([], {{ {option}: {token.in_javascript('BinData(0, "%s")')} }})
while (!stream.isClosed()) {{
  const event = stream.tryNext()
  if (event !== null) printjson(event)
}}
"""


def _spark(uri: str, ns: str, token: Token, option: str) -> str:
    return f"""from tailrace import change_stream

events = change_stream(
    spark,
    {json.dumps(uri)},
    {json.dumps(ns) if ns else None},
    {{"{option}": {token.in_python()}}},
    streaming=True,
)
events.writeStream.format("console").start().awaitTermination()
"""
