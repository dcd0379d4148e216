"""The prose of source, tests and pages: idioms that make readers stop stay out.

`docs/glossary.md` lists the words to use instead.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = (
    "src/**/*.py",
    "tests/**/*.py",
    "bench/*.py",
    "examples/*.py",
    "tools/*.py",
    "*.md",
    "docs/*.md",
    "Makefile",
)
THEMSELVES = (Path(__file__), ROOT / "docs" / "glossary.md")
"""Files that list the idioms."""

IDIOMS = {
    r"behind": "after, for time and order",
    r"untold|told": "shown, reported, deferred",
    r"anew": "again",
    r"whoever": "the client, the reader, the caller",
    r"alone at last|patience": "exclusive, a limit, a back-off",
    r"in one go": "at once",
    r"at hand": "in memory, available",
    r"for ever": "without end, forever",
    r"work(?:s|ed|ing)? out": "compute",
    r"hand(?:s|ed|ing)? out": "return",
    r"(?:is|are|was|were) looked at": "read, checked",
    r"hear(?:s|d)? of": "learn, receive",
}
ANY = re.compile(
    "|".join(rf"(?P<i{place}>\b(?:{idiom})\b)" for place, idiom in enumerate(IDIOMS)), re.IGNORECASE
)
EXEMPT = re.compile(r"prose: quoted")
"""The mark of a line that quotes someone else's words."""


def test_prose_is_plain() -> None:
    found = []
    for path in sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)}):
        if path in THEMSELVES:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = ANY.search(line)
            if match and not EXEMPT.search(line):
                better = list(IDIOMS.values())[int(str(match.lastgroup)[1:])]
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {better}")
    assert not found, "\n".join(found)
