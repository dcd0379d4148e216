"""`$_internalApplyOplogUpdate`, a stage of update pipelines that applies a logged update.

Servers accept it from clients for their own tests.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, TailraceError
from tailrace.events.update_diff import apply_diff

NAME: Final = "$_internalApplyOplogUpdate"
_NOT_AN_OBJECT: Final = 6315901
_NO_DIFF: Final = 4772601
_BROKEN_DIFF: Final = 4770503


def compile_oplog_update(spec: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """From ``{oplogUpdate: {$v: 2, diff}}`` to a function of a document."""
    if not isinstance(spec, Mapping):
        message = f"Argument to {NAME} stage must be an object, but found type: {type_name(spec)}"
        raise CommandError(_NOT_AN_OBJECT, message)
    for name in spec:
        if name != "oplogUpdate":
            raise CommandError(ErrorCode.IDLUnknownField, f"BSON field '{NAME}.{name}' is an unknown field.")
    if "oplogUpdate" not in spec:
        message = f"BSON field '{NAME}.oplogUpdate' is missing but a required field"
        raise CommandError(ErrorCode.IDLFailedToParse, message)
    update = spec["oplogUpdate"]
    diff = update.get("diff") if isinstance(update, Mapping) else None
    if not isinstance(diff, Mapping):
        found = type_name(diff) if diff is not None else "missing"
        raise CommandError(_NO_DIFF, f"Expected 'diff' field to be an object, instead got type: {found}")
    raw = encode(dict(diff))

    def apply(document: dict[str, Any]) -> dict[str, Any]:
        try:
            return decode(apply_diff(encode(document), raw))
        except CommandError:
            raise
        except TailraceError as error:
            raise CommandError(_BROKEN_DIFF, str(error)) from error

    return apply
