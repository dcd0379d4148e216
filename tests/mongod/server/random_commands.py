"""Random commands with random filters, updates and pipelines."""

from typing import Any

from tests.mongod.server.random_queries import PATHS, SCALARS, Document, RandomQueries


class RandomCommands(RandomQueries):
    """Generates commands on the collections `c` and `d` of a database."""

    def command(self) -> Document:
        return self._rng.choice((
            self._find, self._aggregate, self._aggregate, self._aggregate, self._update, self._update,
            self._find_and_modify, self._count, self._distinct, self._delete, self._insert, self._bulk,
            self._watch, self._explain, self._create_index, self._view, self._validated,
        ))()  # fmt: skip

    def _find(self) -> Document:
        rng = self._rng
        made: Document = {"find": "c", "filter": self.filter()}
        extras: Document = {
            "sort": self._stage_argument("$sort", 1),
            "projection": self._projection(),
            "limit": rng.choice((1, 5)),
            "skip": 1,
            "hint": rng.choice(("a_1", {"b": 1}, "nothing", {"$natural": -1})),
            "collation": {"locale": rng.choice(("en", "simple", "xx")), "strength": rng.choice((1, 2, 9))},
            "let": {"v": self.expression()},
            "min": {"a": rng.choice(SCALARS)},
            "batchSize": rng.choice((0, 1, 1000)),
        }
        return made | {name: extras[name] for name in rng.sample(list(extras), rng.randrange(4))}

    def _projection(self) -> Document:
        rng = self._rng
        kinds: tuple[Any, ...] = (
            0, 1, {"$slice": rng.choice((1, [1, 2], [1, 0], "x"))}, {"$elemMatch": self.filter(1)},
            {"$meta": "x"}, self.expression(), "$a",
        )  # fmt: skip
        return {rng.choice(PATHS): rng.choice(kinds) for _ in range(rng.randrange(1, 4))}

    def _aggregate(self) -> Document:
        made: Document = {
            "aggregate": self._rng.choice(("c", "c", "c", "seen", 1)),
            "pipeline": self.pipeline(),
            "cursor": self._rng.choice(({}, {"batchSize": 2}, {"batchSize": 0})),
        }
        if self._rng.random() < 0.2:
            made["let"] = {"v": self.expression()}
        return made

    def _update_statement(self) -> Document:
        rng = self._rng
        made: Document = {"q": self.filter(), "u": self.update()}
        extras: Document = {
            "upsert": True,
            "multi": True,
            "arrayFilters": [{"e": self._condition(1)}, {"e.c": 1}][: rng.randrange(3)],
            "collation": {"locale": "en"},
            "hint": "a_1",
            "c": {"v": self.value()},
            "sort": {"a": 1},
        }
        return made | {name: extras[name] for name in rng.sample(list(extras), rng.randrange(3))}

    def _update(self) -> Document:
        return {"update": "c", "updates": [self._update_statement() for _ in range(2)], "ordered": False}

    def _find_and_modify(self) -> Document:
        rng = self._rng
        change: Document = rng.choice(({"remove": True}, {"update": self.update(), "new": True}))
        return {"findAndModify": "c", "query": self.filter(), "fields": self._projection(), **change}

    def _count(self) -> Document:
        return {"count": "c", "query": self.filter()}

    def _distinct(self) -> Document:
        return {"distinct": "c", "key": self._rng.choice(PATHS), "query": self.filter()}

    def _delete(self) -> Document:
        return {"delete": "c", "deletes": [{"q": self.filter(), "limit": self._rng.choice((0, 1))}]}

    def _insert(self) -> Document:
        made = [{"_id": self.value(), **self.document()}, self.document(), self.document()]
        return {"insert": "c", "documents": made, "ordered": False}

    def _bulk(self) -> Document:
        operations = [
            {"insert": 0, "document": self.document()},
            {"update": 0, "filter": self.filter(), "updateMods": self.update(), "multi": True},
            {"delete": 0, "filter": self.filter()},
        ]
        self._rng.shuffle(operations)
        spaces = [{"ns": "fuzz.c"}]
        return {"bulkWrite": 1, "ops": operations, "nsInfo": spaces, "ordered": False, "$db": "admin"}

    def _watch(self) -> Document:
        stages = [{"$changeStream": self.stream_options()}, *self.pipeline(1)]
        return {"aggregate": self._rng.choice(("c", 1)), "pipeline": stages, "cursor": {}}

    def _explain(self) -> Document:
        made = self._rng.choice((self._find, self._aggregate, self._count, self._update, self._watch))()
        return {"explain": made, "verbosity": self._rng.choice(("queryPlanner", "executionStats", "x"))}

    def _create_index(self) -> Document:
        rng = self._rng
        index: Document = {"key": {rng.choice(PATHS): rng.choice((1, -1, "hashed", "text", 0))}, "name": "x"}
        if rng.random() < 0.3:
            index["partialFilterExpression"] = self.filter(1)
        return {"createIndexes": rng.choice(("c", "d")), "indexes": [index]}

    def _view(self) -> Document:
        return {"create": f"view{self._rng.randrange(50)}", "viewOn": "c", "pipeline": self.pipeline()}

    def _validated(self) -> Document:
        return {"collMod": "d", "validator": self.filter()}
