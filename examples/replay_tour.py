"""A tour of archived oplogs in a few seconds: `python -m examples.replay_tour [FOLDER]`.

Writes the oplog of a small shop (`shop_oplog.jsonl`) as BSON, in one file and split over three shards,
replays both with the commands that a user would type, and compares the results. The exit code is 0 only if
they are identical.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bson import encode

from examples.event_lines import event_line, parse_line, run_tailrace

_OPLOG: Final = Path(__file__).with_name("shop_oplog.jsonl")
_SHARDS: Final = 3
_FOLDER: Final = Path("out/sample")
_OPTIONS: Final = '{"showExpandedEvents": true}'


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else _FOLDER
    return tour(folder, write_sample(folder))


def tour(folder: Path, files: Sequence[Path]) -> int:
    """Replay the oplog in the first file and the shards' oplogs in the others; return the exit code."""
    print(f"A shop's oplog is in {files[0]},")
    print(f"and again, split over {_SHARDS} shards, in {', '.join(path.name for path in files[1:])}.\n")

    single = folder / "events.jsonl"
    if code := run_tailrace("replay", files[0], "--ns", "shop", "--options", _OPTIONS, "--out", single):
        return code
    lines = single.read_text().splitlines()
    for line in lines:
        print(event_line(parse_line(line)))

    print("\nThe shards' oplogs, merged:\n")
    merged = folder / "merged.jsonl"
    shards = [part for path in files[1:] for part in ("--shard", f"{path.stem}={path}")]
    if code := run_tailrace("replay", *shards, "--ns", "shop", "--options", _OPTIONS, "--out", merged):
        return code
    identical = merged.read_bytes() == single.read_bytes()
    print(f"{merged} and {single} are {'identical' if identical else 'DIFFERENT'}: {len(lines)} events.\n")

    print("Every event has a resume token. This is the token of the transaction's second operation:\n")
    token = _in_transaction(lines)
    if code := run_tailrace("token", token):
        return code
    print("\nResumed after it, the stream continues with the next event:\n")
    resumed = folder / "resumed.jsonl"
    options = json.dumps(json.loads(_OPTIONS) | {"resumeAfter": {"_data": token}})
    if code := run_tailrace("replay", files[0], "--ns", "shop", "--options", options, "--out", resumed):
        return code
    rest = resumed.read_text().splitlines()
    for line in rest:
        print(event_line(parse_line(line)))
    if not identical or rest != lines[len(lines) - len(rest) :] or not rest:
        print("\nThe runs differ, which is a bug in Tailrace; please report it.", file=sys.stderr)
        return 1
    return 0


def write_sample(folder: Path) -> list[Path]:
    """Write the sample files; return the path of the whole oplog, then those of the shards."""
    first, *rest = [encode(parse_line(line)) for line in _OPLOG.read_text().splitlines()]
    oplogs = {"oplog": [first, *rest]}
    for number in range(_SHARDS):
        # The first entry initiates a replica set, so every shard has it.
        oplogs[f"shard{number}"] = [first, *rest[number::_SHARDS]]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, entries in oplogs.items():
        path = folder / f"{name}.bson"
        path.write_bytes(b"".join(entries))
        paths.append(path)
    return paths


def _in_transaction(lines: Sequence[str]) -> str:
    events = [parse_line(line) for line in lines]
    token: str = [event["_id"]["_data"] for event in events if "txnNumber" in event][1]
    return token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
