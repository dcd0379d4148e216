"""Seeded operations on a real server, chosen so that its oplog has entries of every shape.

They extend the operations of `ClientWorkload` by what only a real server is asked for here: operators that
need arrays, expressions of pipeline updates, values PyMongo cannot represent, commands on collections
(`RealCommands`) and transactions of every shape (`RealTransactions`).
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from bson import Code
from pymongo import MongoClient, ReturnDocument
from pymongo.client_session import ClientSession

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tests.oracle.replay.commands import RealCommands
from tests.oracle.replay.stream_case import Document
from tests.oracle.replay.transactions import RealTransactions
from tests.support.client_workload import ClientWorkload, Raw, by_id, raw_document
from tests.support.modifiers import ModifierMaker

_NAN_PAYLOADS: Final = (
    b"\x00\x00\x00\x00\x00\x00\xf8\xff",
    b"\x01\x00\x00\x00\x00\x00\xf8\x7f",
    b"\x2a\x00\x00\x00\x00\x00\xf4\x7f",
    b"\xef\xbe\xad\xde\x00\x00\xf8\xff",
)
_ODD_PATHS: Final = ("a.b", "$x", "", "0", "a..b", ".", "$", "01", "_id.x")


class RealWorkload(ClientWorkload):
    """Operations on two databases of a real server."""

    def __init__(
        self,
        client: "MongoClient[Any]",
        seed: int,
        prefix: str,
        *,
        without: Collection[str] = (),
        repeatable: bool = False,
    ) -> None:
        """``without`` are the names of operations that are left out.

        The operations of a ``repeatable`` workload have the same effect at any time.
        """
        super().__init__(client, seed, prefix)
        if repeatable:
            self._modifiers = ModifierMaker(self._rng, self._documents, repeatable=True)
        commands = RealCommands(client, self._rng, self._documents, self.databases)
        transactions = RealTransactions(client, self._rng, self._documents, self.databases)
        self._writes += [
            (6, self._insert_rare),
            (8, self._update_elements),
            (8, self._update_by_expressions),
            (4, self._set_odd_field),
            (3, self._replace_or_insert),
            (3, self._upsert_by_pipeline),
            (3, self._find_and_upsert),
        ]
        # The bulkWrite command of clients came with 8.0.
        self._others = [(weight, other) for weight, other in self._others if other != self._bulk_of_client]
        self._others += [*commands.operations(), *transactions.operations()]
        self._others = [
            (weight, other) for weight, other in self._others if other.__name__[1:] not in without
        ]

    def everything(self, operations: int) -> None:
        """Run operations at random, and each kind at least once."""
        half = operations // 2
        self.run(half)
        actions: list[Callable[[], object]] = [partial(write, None) for _, write in self._writes]
        actions += [other for _, other in self._others]
        self._rng.shuffle(actions)
        for action in actions:
            self._attempt(action)
        self.run(operations - half)

    # -- documents ------------------------------------------------------------------------------------

    def _insert_rare(self, session: ClientSession | None) -> None:
        """A document with a NaN of any payload, and sometimes an `_id` of a rare type."""
        rng = self._rng
        nan = rng.choice(_NAN_PAYLOADS)
        identifier: Any = self._documents.identifier()
        if rng.random() < 0.2:
            identifier = Code("f()", {"x": rng.randrange(3)})
        key = bsondocs.encode({"_id": identifier})[4:-1]
        if rng.random() < 0.3:
            key = rawbson.element(rawbson.DOUBLE, b"_id", nan)
        rest = self._documents.stored(0)
        del rest["_id"]
        payload = rawbson.element(rawbson.DOUBLE, b"payload", nan)
        made = rawbson.document(key, bsondocs.encode(rest)[4:-1], payload)
        self._collection().insert_one(Raw(made), session=session)

    def _update_elements(self, session: ClientSession | None) -> None:
        """Operators on elements of arrays: by position, by filter, all of them."""
        found = self._existing(session)
        if found is None:
            return
        rng = self._rng
        collection, document = found
        rows = [{"k": rng.randrange(3), "v": self._documents.scalar(), "w": [1, 2]} for _ in range(4)]
        collection.update_one(
            by_id(document), raw_document({"$set": {"rows": rows, "plain": [3, 1, 2, 1]}}), session=session
        )
        value = self._documents.value(1)
        update, options, query = rng.choice(
            (
                ({"$set": {"rows.$[x].v": value}}, {"array_filters": [{"x.k": 1}]}, {}),
                (
                    {"$set": {"rows.$[x].w.$[y]": value}},
                    {"array_filters": [{"x.k": {"$lt": 2}}, {"y": 2}]},
                    {},
                ),
                ({"$inc": {"rows.$[].k": 5}}, {}, {}),
                ({"$unset": {"rows.$[x]": 1}}, {"array_filters": [{"x.k": 2}]}, {}),
                ({"$set": {"rows.$.v": value}}, {}, {"rows.k": 1}),
                ({"$push": {"rows.$[].w": {"$each": [9, 8], "$position": 1, "$slice": 3}}}, {}, {}),
                ({"$addToSet": {"plain": {"$each": [1, 7, value]}}}, {}, {}),
                ({"$pullAll": {"plain": [1]}}, {}, {}),
                ({"$pull": {"rows": {"k": {"$gte": 1}}}}, {}, {}),
                ({"$pop": {"plain": -1}}, {}, {}),
                ({"$push": {"rows": {"$each": [{"k": 0}], "$sort": {"k": 1}}}}, {}, {}),
                ({"$set": {"rows.1": value, "rows.7.z": 1}}, {}, {}),
                ({"$unset": {"plain.0": 1}, "$set": {"rows.0.w.3": value}}, {}, {}),
                (
                    {
                        "$bit": {"rows.0.k": {"xor": 3}},
                        "$mul": {"plain.1": 2.5},
                        "$rename": {"plain2": "plain3"},
                    },
                    {},
                    {},
                ),
            )
        )
        wanted = raw_document({"_id": {"$eq": document["_id"]}, **query})
        collection.update_one(wanted, raw_document(update), session=session, **options)

    def _update_by_expressions(self, session: ClientSession | None) -> None:
        """Pipelines whose diffs shorten arrays, change nested arrays, reorder and remove fields."""
        found = self._existing(session)
        if found is None:
            return
        rng = self._rng
        collection, document = found
        literal = {"$literal": self._documents.value()}
        pipelines: tuple[list[Document], ...] = (
            [{"$set": {"list": {"$range": [0, 9]}, "deep": {"list": [1, {"in": [1, 2, 3]}]}}}],
            [{"$set": {"list": {"$slice": [{"$ifNull": ["$list", [1, 2]]}, rng.randrange(1, 4)]}}}],
            [{"$set": {"deep.list": [1, {"in": [1]}], "deep.0": literal}}],
            [{"$set": {"deep.list": {"$concatArrays": [{"$ifNull": ["$deep.list", []]}, [literal]]}}}],
            [{"$unset": ["list", "deep.list"]}, {"$set": {"list": [5]}}],
            [{"$project": {"a": 1, "list": 1, "made": {"$type": "$a"}}}],
            [{"$replaceWith": {"$mergeObjects": [{"first": literal}, "$$ROOT"]}}],
            [{"$set": {"rows": {"$map": {"input": [1, 2, 3], "in": {"k": "$$this"}}}}}],
            [
                {
                    "$set": {
                        "rows": {
                            "$filter": {
                                "input": {"$ifNull": ["$rows", []]},
                                "cond": {"$gt": ["$$this.k", 1]},
                            }
                        }
                    }
                }
            ],
            [{"$set": {"rows.k": literal}}],
            [{"$set": {"0": literal, "deep.1": literal}}],
        )
        collection.update_one(
            by_id(document), [raw_document(stage) for stage in rng.choice(pipelines)], session=session
        )

    def _set_odd_field(self, session: ClientSession | None) -> None:
        """Fields whose names are not paths: with dots, dollar signs, without characters."""
        found = self._existing(session)
        if found is None:
            return
        rng = self._rng
        collection, document = found
        inner = rng.random() < 0.4
        value: Any = "$$REMOVE" if rng.random() < 0.2 else {"$literal": self._documents.value(1)}
        place = "$nested" if inner else "$$ROOT"
        field = {"$setField": {"field": {"$literal": rng.choice(_ODD_PATHS)}, "input": place, "value": value}}
        stage = {"$set": {"nested": field}} if inner else {"$replaceWith": field}
        collection.update_one(by_id(document), [raw_document(stage)], session=session)

    def _replace_or_insert(self, session: ClientSession | None) -> None:
        wanted = {"_id": self._documents.identifier()}
        after = self._documents.stored(wanted["_id"])
        self._collection().replace_one(by_id(wanted), raw_document(after), upsert=True, session=session)

    def _upsert_by_pipeline(self, session: ClientSession | None) -> None:
        wanted = {"_id": self._documents.identifier()}
        stage = raw_document({"$set": {"made": {"$literal": self._documents.value()}}})
        self._collection().update_one(by_id(wanted), [stage], upsert=True, session=session)

    def _find_and_upsert(self, session: ClientSession | None) -> None:
        wanted = {"_id": self._documents.identifier()}
        update = raw_document({"$set": {"found": self._documents.value(1)}, "$setOnInsert": {"new": 1}})
        self._collection().find_one_and_update(
            by_id(wanted), update, upsert=True, return_document=ReturnDocument.AFTER, session=session
        )
