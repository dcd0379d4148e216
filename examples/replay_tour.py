"""A tour of archived oplogs in a few seconds: `python -m examples.replay_tour [FOLDER]`.

Writes the oplog of a small shop, as one file and split over three shards, replays both with the commands a
user would type, and compares the results. The exit code is 0 only if they are identical.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from examples.event_lines import event_line, parse_line, run_tailrace
from tests.support.history import dump
from tests.support.sample import shop_story

_SHARDS: Final = 3
_SPLIT_SEED: Final = 2
_FOLDER: Final = Path("out/sample")
_OPTIONS: Final = '{"showExpandedEvents": true}'


def main(arguments: Sequence[str]) -> int:
    """Run the tour; the exit code."""
    folder = Path(arguments[0]) if arguments else _FOLDER
    return tour(folder, write_sample(folder))


def tour(folder: Path, files: Sequence[Path]) -> int:
    """Replay the oplog of the first file and the shards' logs of the others; the exit code."""
    print(f"A shop's oplog is in {files[0]},")
    print(f"and once more, split over {_SHARDS} shards, in {', '.join(path.name for path in files[1:])}.\n")

    single = folder / "events.jsonl"
    if code := run_tailrace("replay", files[0], "--ns", "shop", "--options", _OPTIONS, "--out", single):
        return code
    lines = single.read_text().splitlines()
    for line in lines:
        print(event_line(parse_line(line)))

    print("\nThe shards' logs, merged:\n")
    merged = folder / "merged.jsonl"
    shards = [part for path in files[1:] for part in ("--shard", f"{path.stem}={path}")]
    if code := run_tailrace("replay", *shards, "--ns", "shop", "--options", _OPTIONS, "--out", merged):
        return code
    identical = merged.read_bytes() == single.read_bytes()
    print(f"{merged} and {single} are {'identical' if identical else 'DIFFERENT'}: {len(lines)} events.\n")

    print("Every event has a resume token. This is the one of the transaction's second operation:\n")
    token = _in_transaction(lines)
    if code := run_tailrace("token", token):
        return code
    print("\nReplayed from there on, the stream goes on with what came next:\n")
    resumed = folder / "resumed.jsonl"
    options = json.dumps(json.loads(_OPTIONS) | {"resumeAfter": {"_data": token}})
    if code := run_tailrace("replay", files[0], "--ns", "shop", "--options", options, "--out", resumed):
        return code
    rest = resumed.read_text().splitlines()
    for line in rest:
        print(event_line(parse_line(line)))
    if not identical or rest != lines[len(lines) - len(rest) :] or not rest:
        print("\nThe runs differ, and must not: this is a fault in Tailrace.", file=sys.stderr)
        return 1
    return 0


def write_sample(folder: Path) -> list[Path]:
    """Write the sample; gives the oplog's file, then the shards'."""
    story = shop_story()
    folder.mkdir(parents=True, exist_ok=True)
    logs = {folder / "oplog.bson": story.entries}
    for number, log in enumerate(story.split(_SHARDS, _SPLIT_SEED)):
        logs[folder / f"shard{number}.bson"] = log
    for path, log in logs.items():
        path.write_bytes(dump(log))
    return list(logs)


def _in_transaction(lines: Sequence[str]) -> str:
    events = [parse_line(line) for line in lines]
    token: str = [event["_id"]["_data"] for event in events if "txnNumber" in event][1]
    return token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
