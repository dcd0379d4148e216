"""Code that resumes a stream after an event, ready to be copied: PyMongo, Node.js, mongosh, Spark."""

import json
from typing import Final, NamedTuple

_INVALIDATE: Final = "invalidate"


class Snippet(NamedTuple):
    language: str
    code: str


def resume_code(uri: str, ns: str, token: str, kind: str) -> list[Snippet]:
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


def _pymongo(uri: str, database: str, collection: str, token: str, *, is_start: bool) -> str:
    names = "".join(f"[{json.dumps(name)}]" for name in (database, collection) if name)
    option = "start_after" if is_start else "resume_after"
    return f"""from pymongo import MongoClient

with MongoClient({json.dumps(uri)}) as client:
    with client{names}.watch({option}={{"_data": "{token}"}}) as stream:
        for event in stream:
            print(event)
"""


def _node(uri: str, database: str, collection: str, token: str, option: str) -> str:
    place = "client"
    if database:
        place += f".db({json.dumps(database)})"
    if collection:
        place += f".collection({json.dumps(collection)})"
    return f"""const {{ MongoClient }} = require("mongodb");

const client = new MongoClient({json.dumps(uri)});

async function main() {{
  const stream = {place}.watch([], {{ {option}: {{ _data: "{token}" }} }});
  for await (const event of stream) {{
    console.log(JSON.stringify(event));
  }}
}}

main();
"""


def _mongosh(uri: str, database: str, collection: str, token: str, option: str) -> str:
    place = "db.getMongo()"
    if database:
        place += f".getDB({json.dumps(database)})"
    if collection:
        place += f".getCollection({json.dumps(collection)})"
    return f"""// mongosh {json.dumps(uri)}
stream = {place}.watch([], {{ {option}: {{ _data: "{token}" }} }})
while (!stream.isClosed()) {{
  const event = stream.tryNext()
  if (event !== null) printjson(event)
}}
"""


def _spark(uri: str, ns: str, token: str, option: str) -> str:
    return f"""from tailrace import change_stream

events = change_stream(
    spark,
    {json.dumps(uri)},
    {json.dumps(ns) if ns else None},
    {{"{option}": {{"_data": "{token}"}}}},
    streaming=True,
)
events.writeStream.format("console").start().awaitTermination()
"""
