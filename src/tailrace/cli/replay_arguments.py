"""The arguments of `tailrace replay`, taken apart: which files, and which stream."""

import os
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.cli.json_arguments import (
    document_argument,
    named_argument,
    raw_document_argument,
    stages_argument,
    utf8_argument,
)
from tailrace.errors import UsageError
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import EMIT_FROM_MIGRATE, END_OF_TRANSACTION_FLAG, Plan
from tailrace.sources.archives.dumps import Dumps, PreImageDump

PARAMETERS: Final = (END_OF_TRANSACTION_FLAG, EMIT_FROM_MIGRATE)
"""what --parameter may set"""
STANDARD_INPUT: Final = "/dev/stdin"


@dataclass(frozen=True)
class Definition:
    """A stream as the command line describes it: what a plan is opened with."""

    scope: Scope
    spec: bytes
    """the `$changeStream` document"""
    pipeline: Sequence[Mapping[str, Any]]
    others: Mapping[str, Any]

    def open(self) -> Plan:
        """The plan; raises `CommandError` for all that is wrong with it."""
        try:
            return Plan.open(self.scope, self.spec, self.pipeline, **self.others)
        except RecursionError:
            raise UsageError("the options or the pipeline are nested too deeply") from None


def definition_of(arguments: Namespace) -> Definition:
    """The stream."""
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
        },
    )


def shards_of(arguments: Namespace) -> dict[str, list[str]]:
    """The paths of each shard's oplog; a replica set is one shard without a name."""
    if arguments.paths and arguments.shard:
        raise UsageError("PATH and --shard exclude each other; give every oplog with --shard, or none")
    if arguments.paths:
        return {"": [_input(path) for path in arguments.paths]}
    shards: dict[str, list[str]] = {}
    for text in arguments.shard:
        name, path = named_argument("--shard", text, "NAME=PATH")
        shards.setdefault(name, []).append(_input(path))
    return shards


def dumps_of(arguments: Namespace, shards: Collection[str]) -> Dumps:
    """The dumps of --pre-images and --documents."""
    collections: dict[str, list[str]] = {}
    for text in arguments.documents:
        namespace, path = named_argument("--documents", text, "NS=PATH")
        collections.setdefault(namespace, []).append(path)
    return Dumps([_pre_image_dump(shards, text) for text in arguments.pre_images], collections)


def _pre_image_dump(shards: Collection[str], text: str) -> PreImageDump:
    # Shards may have entries with equal times, so a pre-image belongs to its shard if that is named.
    shard, equals, path = text.partition("=")
    return PreImageDump(path, [shard]) if equals and shard in shards else PreImageDump(text, shards)


def spare_inputs(out: str, inputs: Iterable[str]) -> None:
    """Refuse an output that is one of the inputs, or one of the files in a folder that is."""
    if out == "-" or not os.path.isfile(out):
        return
    for path in inputs:
        is_folder = os.path.isdir(path) and os.access(path, os.R_OK)
        files = [os.path.join(path, name) for name in os.listdir(path)] if is_folder else [path]
        if any(os.path.exists(file) and os.path.samefile(file, out) for file in files):
            raise UsageError(f"--out {out} would overwrite a file that is read; choose another one")


def _input(path: str) -> str:
    return STANDARD_INPUT if path == "-" else path


def _parameter(text: str) -> tuple[str, bool]:
    name, value = named_argument("--parameter", text, "NAME=true or NAME=false")
    if name not in PARAMETERS:
        raise UsageError(f"--parameter: none is called {name}; there are {' and '.join(PARAMETERS)}")
    if value not in ("true", "false"):
        raise UsageError(f"--parameter {name} takes true or false, not {value!r}")
    return name, value == "true"


def _scope(ns: str | None, spec: bytes) -> Scope:
    if ns is None:
        return Scope.cluster()
    db, dot, coll = utf8_argument("--ns", ns).partition(".")
    for_cluster = rawbson.field(spec, b"allChangesForCluster") == (rawbson.BOOL, b"\x01")
    return Scope.of(db, coll if dot else None, all_changes_for_cluster=for_cluster)


def _optional_document(option: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else document_argument(option, text)
