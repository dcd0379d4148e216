"""`tailrace replay`: the options of the command; `replay_stream` does the work.

>>> parser = argparse.ArgumentParser()
>>> add_arguments(parser)
>>> parser.parse_args(["oplog.bson", "--ns", "shop.orders"]).paths
['oplog.bson']
"""

import argparse

HELP = "turn archived oplogs into the events of a change stream"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="oplog files (.bson or lines of Extended JSON, also .gz) or folders of them, read in sequence; "
        "- is standard input",
    )
    add(
        "--shard",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="the oplog of one shard, instead of PATH; repeated for other shards, and other files of a shard",
    )
    add("--ns", metavar="DB[.COLL]", help="watch one database or collection instead of the whole cluster")
    add("--options", default="{}", metavar="JSON", help="the $changeStream document")
    add("--pipeline", default="[]", metavar="JSON", help="array of the stages behind $changeStream")
    add("--collation", metavar="JSON", help="collation of these stages")
    add("--let", metavar="JSON", help="document of variables for these stages")
    add(
        "--pre-images",
        action="append",
        default=[],
        metavar="[SHARD=]PATH",
        help="a dump of config.system.preimages; of one shard if the shard is named",
    )
    add(
        "--documents",
        action="append",
        default=[],
        metavar="NS=PATH",
        help="a dump of a collection, in which fullDocument: updateLookup finds the current documents",
    )
    add("--raw-data", action="store_true", help="show time series collections as they are stored")
    add(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=BOOLEAN",
        help="a server parameter or feature flag that differs from its default",
    )
    add(
        "--engine",
        choices=["spark", "local"],
        help="what computes the events: Spark, or this process; without it, Spark if the input is large",
    )
    add("--master", metavar="M", help="Spark's master; all cores of this machine without it")
    add("--explain", action="store_true", help="print the stages instead of running them")
    add(
        "--out",
        default="-",
        metavar="FILE|DIR/",
        help="where the events are written: a file, an empty folder, or - for standard output",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay, or explain."""
    from tailrace.cli.replay_stream import replay

    return replay(arguments)
