"""`tailrace replay`: the options of the command; `replaying` runs it.

>>> parser = argparse.ArgumentParser()
>>> add_arguments(parser)
>>> parser.parse_args(["oplog.bson", "--ns", "shop.orders"]).paths
['oplog.bson']
"""

import argparse

HELP = "turn archived oplogs into the events of a change stream"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="oplog files (BSON or lines of Extended JSON, also gzipped) or folders of them, read in "
        "the order given; - is standard input",
    )
    add(
        "--shard",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="the oplog of one shard, instead of PATH; repeat it for every shard and every file of a shard",
    )
    add("--ns", metavar="DB[.COLL]", help="watch one database or collection instead of the whole cluster")
    add("--options", default="{}", metavar="JSON", help="the $changeStream document")
    add("--pipeline", default="[]", metavar="JSON", help="array of the stages after $changeStream")
    add("--collation", metavar="JSON", help="collation of the pipeline's stages")
    add("--let", metavar="JSON", help="document of variables for the pipeline's stages")
    add(
        "--pre-images",
        action="append",
        default=[],
        metavar="[SHARD=]PATH",
        help="a dump of config.system.preimages, of all shards or of the named one",
    )
    add(
        "--documents",
        action="append",
        default=[],
        metavar="NS=PATH",
        help="a dump of a collection, in which fullDocument: updateLookup looks documents up",
    )
    add("--raw-data", action="store_true", help="show the stored buckets of time series collections")
    add(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=BOOLEAN",
        help="a server parameter or feature flag that differs from its default",
    )
    add(
        "--server-version",
        metavar="VERSION",
        help="the MongoDB release whose change streams are imitated, such as 6.0.27; default: the "
        "current one",
    )
    add(
        "--engine",
        choices=["spark", "local"],
        help="what computes the events: Spark or this process; default: Spark if the input is large",
    )
    add("--master", metavar="M", help="Spark's master; default: all cores of this machine")
    add("--explain", action="store_true", help="print the stages instead of running them")
    add(
        "--out",
        default="-",
        metavar="FILE|DIR/",
        help="where the events are written: a file, an empty folder, or - for standard output",
    )


def run(arguments: argparse.Namespace) -> int:
    from tailrace.cli.replaying.stream import replay

    return replay(arguments)
