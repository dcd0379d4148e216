"""Replay archived oplogs: the events that a change stream would have returned, in order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from os import PathLike
from typing import Any, TypeAlias

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.errors import InvalidBSON

from tailrace.errors import BsonError, CommandError, DamagedInputError
from tailrace.events.oplog_entry import MALFORMED_ENTRY
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.log.local_engine import LocalEngine
from tailrace.places import local_path
from tailrace.sources.archives.dumps import Dumps, PreImageDump
from tailrace.sources.archives.shard_feed import ShardFeed
from tailrace.sources.archives.soundness import damage_in_file

ArchivePath: TypeAlias = str | PathLike[str]
Archive: TypeAlias = ArchivePath | Sequence[ArchivePath]
"""Files or folders that contain one oplog, in order"""


def replay(
    oplogs: Archive | Mapping[str, Archive],
    scope: str | None = None,
    options: Mapping[str, Any] | None = None,
    pipeline: Sequence[Mapping[str, Any]] = (),
    *,
    collation: Mapping[str, Any] | None = None,
    let: Mapping[str, Any] | None = None,
    documents: Mapping[str, Archive] | None = None,
    pre_images: Archive | Mapping[str, Archive] = (),
    server_version: str | None = None,
    codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
) -> Iterator[dict[str, Any]]:
    """Return the events that a change stream on archived oplogs would have returned.

    ``oplogs`` is the archived oplog of a replica set, or a mapping with those of a cluster's shards by name:
    files of BSON or of Extended JSON lines, also gzipped, or folders of them. ``scope`` is ``"db"`` or
    ``"db.coll"``; without it the whole deployment is watched. ``options`` are the fields of `$changeStream`,
    with the server's names; without a start point the stream begins with the first entry. ``pipeline`` are
    the stages after `$changeStream`.

    Pre-images are looked up in ``pre_images``, dumps of `config.system.preimages` (by shard, if shards have
    their own). Current documents for `fullDocument: updateLookup` are looked up in ``documents``, dumps of
    collections by namespace; without a dump they are None.

    ``server_version`` is the MongoDB release whose change streams are imitated, such as ``"6.0.27"``; an
    archive does not show it, so it is the current one by default.

    Options and pipeline are checked by this call: it raises `CommandError` with the code that MongoDB has for
    the fault. Iterating raises `CommandError` where the stream would fail, and `DamagedInputError` with path
    and byte where a file is damaged, in both cases after all events before it. An invalidated stream ends.
    """
    on_router = isinstance(oplogs, Mapping)
    plan = Plan.open(
        Scope.cluster() if scope is None else Scope.parse_ns(scope),
        options or {},
        pipeline,
        on_router=on_router,
        collation=collation,
        let=let,
        release=CURRENT_RELEASE if server_version is None else StreamRelease.parse(server_version),
    )
    shards = {name: _paths(archive) for name, archive in _by_name(oplogs).items()}
    dumps = Dumps(
        [
            PreImageDump(path, [shard] if isinstance(pre_images, Mapping) else list(shards))
            for shard, archive in _by_name(pre_images).items()
            for path in _paths(archive)
        ],
        {namespace: _paths(archive) for namespace, archive in (documents or {}).items()},
    )
    dumps.check()
    return _decoded(plan, shards, dumps, lambda raw: bson.decode(raw, codec_options))


def _by_name(archives: Archive | Mapping[str, Archive]) -> Mapping[str, Archive]:
    return archives if isinstance(archives, Mapping) else {"": archives}


def _paths(archive: Archive) -> list[str]:
    found = [archive] if isinstance(archive, (str, PathLike)) else archive
    return [local_path(path, "an archive") for path in found]


def _decoded(
    plan: Plan, shards: Mapping[str, list[str]], dumps: Dumps, decode: Callable[[bytes], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        feeds = {name: stack.enter_context(ShardFeed(paths)) for name, paths in shards.items()}
        lookups = dumps.open(stack, {name: feed.find for name, feed in feeds.items()})
        try:
            for events in replayed(LocalEngine(plan, lookups), feeds):
                yield from map(decode, events)
        except CommandError as error:
            raise damage_of(error, feeds, dumps) or error from None
        except InvalidBSON as error:
            raise damage_of(BsonError(str(error)), feeds, dumps) or error from None
        except RecursionError:
            bottomless = BsonError("a document is nested too deeply")
            raise damage_of(bottomless, feeds, dumps) or bottomless from None


def replayed(engine: LocalEngine, feeds: Mapping[str, ShardFeed]) -> Iterator[list[bytes]]:
    """Feed an engine until all shards are read or the stream is over; yield the events of each step."""
    for name in engine.feed({name: feed.batches(engine.start_time) for name, feed in feeds.items()}):
        while events := engine.drain():
            yield events
        feeds[name].release()
        yield []


def damage_of(error: CommandError, feeds: Mapping[str, ShardFeed], dumps: Dumps) -> DamagedInputError | None:
    """The damaged place in an input that made the stream fail; None if it failed for another reason."""
    if not isinstance(error, BsonError) and error.code != MALFORMED_ENTRY:
        return None
    damages = chain((feed.damage() for feed in feeds.values()), map(damage_in_file, dumps.paths))
    return next((damage for damage in damages if damage is not None), None)
