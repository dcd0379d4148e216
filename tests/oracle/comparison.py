"""Compare what two servers answered, with what must differ masked.

Masked are times near now, how long commands took, UUIDs, new ObjectIds, cursor ids, addresses, names of
temporary collections, and time and UUID in resume tokens; the rest of a token is compared byte for byte.
Texts of messages are not compared, nor are a mongod's `electionId` and `opTime`. Values, types and the order
of fields are.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp

Document = dict[str, Any]
_NEAR_SECONDS: Final = 6 * 3600
_LEFT_OUT: Final = frozenset({"electionId", "opTime", "lastCommittedOpTime"})
_TEXTS: Final = frozenset({"errmsg", "$err", "note", "info"})
_UUID_SUBTYPES: Final = (3, 4)
_TOKEN_TIME: Final = re.compile(r"^82[0-9A-F]{16}")
_TOKEN_UUID: Final = re.compile(r"5A1004[0-9A-F]{32}")
_TEMPORARY: Final = re.compile(
    r"(tmp)(?:[A-Za-z0-9]{5}|(?=\.agg_out\.))(\.(?:rename|convert|agg_out)[a-zA-Z_]*)(?:\.[0-9a-f-]{36})?",
    re.IGNORECASE,
)
_TOKEN_OBJECT_ID: Final = re.compile(r"(645F69640064)([0-9A-F]{24})")
_ADDRESS: Final = re.compile(r"^(127\.0\.0\.1|localhost|[\w.-]+):\d{4,5}$")


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two documents differ."""

    path: str
    kind: str
    """`code`, `outcome`, `order`, `fields`, `type` or `value`."""
    real: object
    ours: object

    def __str__(self) -> str:
        return f"{self.path or 'reply'}: {self.kind}: real {self.real!r}, ours {self.ours!r}"


def mask_token(data: str) -> str:
    """A resume token without its time, UUIDs, and new ObjectIds and what is random in others as `_id`."""
    masked = _TOKEN_UUID.sub("5A1004<uuid>", _TOKEN_TIME.sub("82<time>", data))
    return _TOKEN_OBJECT_ID.sub(_without_new_id, masked)


def _without_new_id(found: re.Match[str]) -> str:
    time = found[2][:8]
    return f"{found[1]}<new>" if _is_near(int(time, 16)) else f"{found[1]}{time}<random>"


def mask_temporary(name: str) -> str:
    """A name without the random part that temporary collections have."""
    return _TEMPORARY.sub(r"\1\2", name)


def differences(real: Document, ours: Document) -> list[Difference]:
    """Return where two replies differ."""
    if bool(real.get("ok")) != bool(ours.get("ok")):
        return [Difference("", "outcome", _outcome(real), _outcome(ours))]
    if real.get("code") != ours.get("code"):
        return [Difference("", "code", _outcome(real), _outcome(ours))]
    return list(_documents("", real, ours))


def _outcome(reply: Document) -> str:
    if reply.get("ok"):
        return "ok " + str({name: reply[name] for name in reply if name not in ("ok", "$clusterTime")})[:200]
    return f"{reply.get('code')} {reply.get('codeName')}: {str(reply.get('errmsg'))[:200]}"


def value_differences(path: str, real: object, ours: object) -> Iterator[Difference]:
    """Yield where two values differ, with their masks applied."""
    if isinstance(real, dict) and isinstance(ours, dict):
        yield from _documents(path, real, ours)
    elif isinstance(real, list) and isinstance(ours, list):
        if len(real) != len(ours):
            yield Difference(path, "value", real, ours)
            return
        for number, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from value_differences(f"{path}.{number}", one, other)
    elif type(real) is not type(ours):
        yield Difference(path, "type", real, ours)
    elif not _are_alike(path.rpartition(".")[2], real, ours):
        yield Difference(path, "value", real, ours)


def _documents(path: str, real: Document, ours: Document) -> Iterator[Difference]:
    real_names = [name for name in real if name not in _LEFT_OUT]
    our_names = [name for name in ours if name not in _LEFT_OUT]
    if set(real_names) != set(our_names):
        yield Difference(path, "fields", real_names, our_names)
    elif real_names != our_names:
        yield Difference(path, "order", real_names, our_names)
    for name in real_names:
        if name in ours and name not in _TEXTS:
            yield from value_differences(f"{path}.{name}" if path else name, real[name], ours[name])


def _are_alike(name: str, real: Any, ours: Any) -> bool:
    if isinstance(real, float):
        return bool(real == ours or (real != real and ours != ours))
    if real == ours:
        return True
    if name == "millis":  # how long a command took
        return type(real) is type(ours)
    if isinstance(real, Timestamp):
        return _is_near(real.time) and _is_near(ours.time)
    if isinstance(real, DatetimeMS):
        return _is_near(int(real) / 1000) and _is_near(int(ours) / 1000)
    if isinstance(real, ObjectId):
        if real.binary[:4] == ours.binary[:4]:
            return True
        return _is_near(real.generation_time.timestamp()) and _is_near(ours.generation_time.timestamp())
    if isinstance(real, Binary):
        return bool(real.subtype == ours.subtype and real.subtype in _UUID_SUBTYPES)
    if isinstance(real, Int64):
        if name == "counter":  # of a topology version
            return True
        return name in ("id", "cursorId") and real != 0 and ours != 0
    if isinstance(real, str):
        if name == "_data":
            return mask_token(real) == mask_token(ours)
        if _TEMPORARY.search(real):
            return mask_temporary(real) == mask_temporary(ours)
        return bool(_ADDRESS.match(real) and _ADDRESS.match(ours))
    return False


def _is_near(seconds: float) -> bool:
    return abs(seconds - time.time()) < _NEAR_SECONDS
