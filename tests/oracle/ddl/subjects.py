"""All hand-written DDL commands by subject."""

from typing import Any, Final

from tests.oracle.ddl.creating import CLUSTERED, CREATE, CREATE_TYPES
from tests.oracle.ddl.dropping import CONVERT, DROP, DROP_DATABASE, RENAME
from tests.oracle.ddl.indexing import BUILDS, CREATE_INDEXES, DROP_INDEXES, INDEX_TYPES
from tests.oracle.ddl.listing import LISTS, STATISTICS, VALIDATE
from tests.oracle.ddl.modifying import COLL_MOD, COLL_MOD_INDEX, COPIES, VIEWS
from tests.oracle.ddl.several_faults import INDEX_FAULTS, OTHER_COLLATIONS, PARTLY_WRITTEN
from tests.oracle.ddl.time_series import TIME_SERIES

KNOWN: Final[list[Any]] = [
    # A database's name with a `$` is refused everywhere.
    ({"drop": "c"}, "a$b"),
    ({"dropDatabase": 1}, "a$b"),
    ({"dropDatabase": 1}, "$external"),
    # There is no full-text search.
    ({"create": "v17", "validator": {"$text": {"$search": "x"}}}, "a"),
    ({"dropIndexes": "oplog.rs", "index": "a"}, "local"),
]
"""Commands whose replies are allowed to differ."""

SUBJECTS: Final[dict[str, list[Any]]] = {
    "create": CREATE,
    "create_types": CREATE_TYPES,
    "clustered": CLUSTERED,
    "drop": DROP,
    "drop_database": DROP_DATABASE,
    "rename": RENAME,
    "convert": CONVERT,
    "coll_mod": COLL_MOD,
    "coll_mod_index": COLL_MOD_INDEX,
    "copies": COPIES,
    "views": VIEWS,
    "create_indexes": CREATE_INDEXES,
    "index_types": INDEX_TYPES,
    "builds": BUILDS,
    "drop_indexes": DROP_INDEXES,
    "lists": LISTS,
    "validate": VALIDATE,
    "statistics": STATISTICS,
    "time_series": TIME_SERIES,
    "index_faults": INDEX_FAULTS,
    "other_collations": OTHER_COLLATIONS,
    "partly_written": PARTLY_WRITTEN,
}
