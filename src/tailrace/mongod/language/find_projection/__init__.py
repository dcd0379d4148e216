"""Projections of the command ``find``: the fields that are sent to the client.

>>> from tailrace.bson.documents import decode, encode
>>> projection = compile_find_projection({"name": 1, "grades": {"$slice": -1}, "_id": 0})
>>> decode(projection.apply(encode({"_id": 1, "name": "Ada", "grades": [2, 1], "age": 36})))
{'name': 'Ada', 'grades': [1]}

In addition to `$project` there are ``$slice``, ``$elemMatch``, the positional ``$``, and the empty
projection, which keeps everything. The usual projection names a few fields, which are copied from the
document's bytes (`raw_fields`). `compile` reads a specification, `array_operators` has the operators on
arrays.
"""

from tailrace.mongod.language.find_projection.compile import compile_find_projection
from tailrace.mongod.language.find_projection.projection import FindProjection

__all__ = ["FindProjection", "compile_find_projection"]
