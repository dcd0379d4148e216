"""Canonical Extended JSON in other forms: relaxed, indented, coloured.

They work on the text, so repeated fields and the order of fields are preserved. A quotation mark inside of a
string is escaped, so the patterns cannot match there.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000: Final = 253402300800000
_DATE: Final = re.compile(r'\{"\$date": \{"\$numberLong": "(-?\d+)"\}\}')
_WHOLE: Final = re.compile(r'\{"\$number(?:Int|Long)": "(-?\d+)"\}')
_DOUBLE: Final = re.compile(r'\{"\$numberDouble": "(-?[\d.]+(?:[eE][+-]?\d+)?)"\}')
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_FLAT: Final = rf'(?:{_STRING}|[^{{}}"])*'
_TYPED: Final = rf'\{{(?="\$){_FLAT}(?:\{{{_FLAT}\}}{_FLAT})*\}}'
"""A value such as {"$timestamp": {"t": 1, "i": 2}}."""
_TOKENS: Final = re.compile(rf'{_TYPED}|{_STRING}|[{{}}\[\]]|, |: |[^\s"{{}}\[\],:]+')
_KEYS: Final = re.compile(rf"{_STRING}(?=: )")
_OPERATION: Final = re.compile(r'("operationType": )"(\w+)"')
_RESET: Final = "\x1b[0m"
_KEY_COLOUR: Final = "\x1b[36m"
_COLOURS: Final = {"insert": "\x1b[32m", "update": "\x1b[33m", "replace": "\x1b[33m", "delete": "\x1b[31m"}
_OTHER_COLOUR: Final = "\x1b[35m"


def relaxed(text: str) -> str:
    """Numbers and dates as people write them.

    >>> relaxed('{"n": {"$numberInt": "7"}, "at": {"$date": {"$numberLong": "1000"}}}')
    '{"n": 7, "at": {"$date": "1970-01-01T00:00:01Z"}}'
    """
    return _DOUBLE.sub(r"\1", _WHOLE.sub(r"\1", _DATE.sub(_iso, text)))


def _iso(found: re.Match[str]) -> str:
    milliseconds = int(found[1])
    if not 0 <= milliseconds < _YEAR_10000:
        # Relaxed Extended JSON writes these as numbers; escaped from the next pattern by its form.
        return found[0].replace('"$numberLong": ', '"$numberLong":')
    moment = (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    return f'{{"$date": "{moment.removesuffix("+00:00").removesuffix(".000")}Z"}}'


def pretty(text: str) -> str:
    """One field to a line, indented; a value such as an ObjectId stays on one line.

    >>> print(pretty('{"_id": {"$oid": "6553f100"}, "tags": ["a"], "no": {}}'))
    {
      "_id": {"$oid": "6553f100"},
      "tags": [
        "a"
      ],
      "no": {}
    }
    """
    parts: list[str] = []
    depth = 0
    tokens = _TOKENS.findall(text)
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in ("{", "["):
            depth += 1
            parts.append(token if following in ("}", "]") else f"{token}\n{'  ' * depth}")
        elif token in ("}", "]"):
            depth -= 1
            is_empty = bool(parts) and parts[-1] in ("{", "[")
            parts.append(token if is_empty else f"\n{'  ' * depth}{token}")
        elif token == ", ":
            parts.append(f",\n{'  ' * depth}")
        else:
            parts.append(token)
    return "".join(parts)


def coloured(text: str) -> str:
    """With colours of a terminal: names of fields, and the type of the event."""
    text = _OPERATION.sub(_coloured_type, text, count=1)
    return _KEYS.sub(lambda found: f"{_KEY_COLOUR}{found[0]}{_RESET}", text)


def _coloured_type(found: re.Match[str]) -> str:
    return f'{found[1]}{_COLOURS.get(found[2], _OTHER_COLOUR)}"{found[2]}"{_RESET}'
