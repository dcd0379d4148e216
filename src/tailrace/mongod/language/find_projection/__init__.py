"""Projections of the command ``find``: what of a document is sent to the client.

>>> from tailrace.bson.documents import decode, encode
>>> projection = compile_find_projection({"name": 1, "grades": {"$slice": -1}, "_id": 0})
>>> decode(projection.apply(encode({"_id": 1, "name": "Ada", "grades": [2, 1], "age": 36})))
{'name': 'Ada', 'grades': [1]}

Beside what `$project` knows there are ``$slice``, ``$elemMatch`` and the positional ``$``, and an empty
projection, which keeps everything. The usual projection names a few fields: it is cut out of the document's
bytes. `compile` reads a specification, `array_operators` holds what is done to arrays, `raw_fields` cuts.
"""

from tailrace.mongod.language.find_projection.compile import compile_find_projection
from tailrace.mongod.language.find_projection.projection import FindProjection

__all__ = ["FindProjection", "compile_find_projection"]
