"""Parse the arguments of `tailrace replay`: which files, and which stream."""

import os
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.cli.json_arguments import (
    document_argument,
    named_argument,
    paths_by_name,
    raw_document_argument,
    release_argument,
    shard_and_path,
    stages_argument,
)
from tailrace.cli.sources.namespaces import namespace_argument
from tailrace.errors import UsageError
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import EMIT_FROM_MIGRATE, END_OF_TRANSACTION_FLAG, Plan
from tailrace.events.stream_release import CURRENT_RELEASE
from tailrace.places import local_path
from tailrace.sources.archives.dumps import Dumps, PreImageDump

PARAMETERS: Final = (END_OF_TRANSACTION_FLAG, EMIT_FROM_MIGRATE)
"""The parameters that --parameter sets."""
STANDARD_INPUT: Final = "/dev/stdin"


@dataclass(frozen=True)
class Definition:
    """A stream as the command line describes it: the arguments of `Plan.open`."""

    scope: Scope
    spec: bytes
    """The `$changeStream` document."""
    pipeline: Sequence[Mapping[str, Any]]
    others: Mapping[str, Any]

    def open(self) -> Plan:
        """Return the plan; raise `CommandError` if the stream's options or pipeline are wrong."""
        try:
            return Plan.open(self.scope, self.spec, self.pipeline, **self.others)
        except RecursionError:
            raise UsageError("the options or the pipeline are nested too deeply") from None


def definition_of(arguments: Namespace) -> Definition:
    spec = raw_document_argument("--options", arguments.options)
    return Definition(
        _scope(arguments.ns, spec),
        spec,
        stages_argument("--pipeline", arguments.pipeline),
        {
            "on_router": bool(arguments.shard),
            "raw_data": arguments.raw_data,
            "parameters": dict(map(_parameter, arguments.parameter)),
            "collation": _optional_document("--collation", arguments.collation),
            "let": _optional_document("--let", arguments.let),
            "release": release_argument(arguments.server_version) or CURRENT_RELEASE,
        },
    )


def shards_of(arguments: Namespace) -> dict[str, list[str]]:
    """The paths of each shard's oplog; a replica set is one shard without a name."""
    if arguments.paths and arguments.shard:
        raise UsageError("PATH and --shard exclude each other; name all oplogs with --shard, or none")
    if arguments.paths:
        return {"": [_input(path) for path in arguments.paths]}
    shards = paths_by_name("--shard", arguments.shard, "NAME=PATH")
    return {name: [_input(path) for path in paths] for name, paths in shards.items()}


def dumps_of(arguments: Namespace, shards: Collection[str]) -> Dumps:
    """The dumps of --pre-images and --documents."""
    collections = paths_by_name("--documents", arguments.documents, "NS=PATH")
    return Dumps([_pre_image_dump(shards, text) for text in arguments.pre_images], collections)


def _pre_image_dump(shards: Collection[str], text: str) -> PreImageDump:
    # Shards may have entries with equal times, so a pre-image belongs to its shard if that is named.
    shard, path = shard_and_path(text, shards)
    return PreImageDump(path, shards if shard is None else [shard])


def spare_inputs(out: str, inputs: Iterable[str]) -> None:
    """Refuse an output that is one of the inputs, or a file in one of the input folders."""
    if out == "-" or not os.path.isfile(local_path(out, "--out")):
        return
    for path in inputs:
        is_folder = os.path.isdir(path) and os.access(path, os.R_OK)
        files = [os.path.join(path, name) for name in os.listdir(path)] if is_folder else [path]
        if any(os.path.exists(file) and os.path.samefile(file, out) for file in files):
            raise UsageError(f"--out {out} would overwrite one of the inputs; choose another file")


def _input(path: str) -> str:
    return STANDARD_INPUT if path == "-" else local_path(path, "an archived oplog")


def _parameter(text: str) -> tuple[str, bool]:
    name, value = named_argument("--parameter", text, "NAME=true or NAME=false")
    if name not in PARAMETERS:
        raise UsageError(f"--parameter: there is no parameter {name}; there are {' and '.join(PARAMETERS)}")
    if value not in ("true", "false"):
        raise UsageError(f"--parameter {name} takes true or false, not {value!r}")
    return name, value == "true"


def _scope(ns: str | None, spec: bytes) -> Scope:
    if ns is None:
        return Scope.cluster()
    database, collection = namespace_argument("--ns", ns)
    for_cluster = rawbson.field(spec, b"allChangesForCluster") == (rawbson.BOOL, b"\x01")
    return Scope.of(database, collection, all_changes_for_cluster=for_cluster)


def _optional_document(option: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else document_argument(option, text)
