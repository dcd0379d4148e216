"""The audit log: who logged in, what was refused, and who changed users, roles and the catalog.

One JSON object to a line, with MongoDB's fields and names (docs/security.md). Secrets are not in it.
"""

import ipaddress
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.json_util import RELAXED_JSON_OPTIONS, dumps

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import UsageError
from tailrace.mongod.server.admin.audit_messages import MESSAGES

if TYPE_CHECKING:
    from tailrace.mongod.server.access.principals import Principal
    from tailrace.mongod.server.dispatch.context import Context

_LARGEST: Final = 1 << 16
"""Bytes of a refused command that are written; of a larger one only the name is."""
_SYSTEM: Final = {"isSystemUser": True}


class AuditLog:
    """Appends to one file, which only the user of this process can read; all nodes share it."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises `UsageError` if that is not possible."""
        self._path = path
        self._file = self._opened()

    def _opened(self) -> FileIO:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        try:
            return FileIO(os.fspath(self._path), "a", opener=private)
        except OSError as error:
            raise UsageError(
                f"the audit log {self._path} cannot be written: {error.strerror}; name another file with "
                "--audit-log"
            ) from None

    def reopen(self) -> None:
        """Continue in a new file under the same name, after the old one was moved away."""
        opened = self._opened()
        self._file.close()
        self._file = opened

    def close(self) -> None:
        self._file.close()

    # -- what is written ------------------------------------------------------------------------------------

    def note(self, context: "Context") -> None:
        """Write what a command that has ended did, if it is one of those that are audited."""
        if not context.client.id:
            # A call inside of this process: that of the client is written.
            context.client.created |= context.created
            return
        for ns in context.created:
            # Its job may have been undone; a transaction creates what others do not see yet.
            if context.in_transaction or context.node.states.catalog.collection(ns) is not None:
                self.write(context, "createCollection", {"ns": ns}, 0)
        code = 0 if context.error is None else context.error.code
        if code == ErrorCode.Unauthorized:
            self.write(context, "authCheck", _refused(context), code)
            return
        message = MESSAGES.get(context.entry.name)
        if message is not None:
            for kind, param in message(context):
                self.write(context, kind, param, code)

    def login(self, context: "Context", principal: "Principal | None", mechanism: str, code: int) -> None:
        """Write that somebody has logged in, or was refused."""
        named = {} if principal is None else principal.to_document("user")
        self.write(context, "authenticate", {**named, "mechanism": mechanism}, code)

    def system(self, kind: str, param: Mapping[str, Any]) -> None:
        """Write what no client has done."""
        self._append({"atype": kind, "local": _SYSTEM, "remote": _SYSTEM, "users": [], "roles": []}, param, 0)

    def write(self, context: "Context", kind: str, param: Mapping[str, Any], code: int) -> None:
        client = context.client
        user = client.user
        about = {
            "atype": kind,
            "local": {"ip": client.server_host, "port": context.node.port},
            "remote": _endpoint(client.address),
            "users": [] if user is None else [user.principal.to_document("user")],
            "roles": [] if user is None else [role.to_document("role") for role in user.roles],
        }
        try:
            self._append(about, param, code)
        except OSError as error:
            context.node.log.error("ACCESS", "The audit log cannot be written", client.name, error=str(error))

    def _append(self, about: Mapping[str, Any], param: Mapping[str, Any], code: int) -> None:
        now = datetime.now(UTC)
        document = {
            "atype": about["atype"],
            "ts": now.replace(microsecond=now.microsecond // 1000 * 1000),
            **about,
            "param": param,
            "result": code,
        }
        line = dumps(bson.decode(encode(document)), json_options=RELAXED_JSON_OPTIONS)
        self._file.write(line.encode() + b"\n")


def _refused(context: "Context") -> dict[str, Any]:
    args = context.shown_command
    size = len(context.request.command)
    return {
        "command": context.name,
        "ns": context.namespace or context.database,
        "args": args if size <= _LARGEST else {context.name: args.get(context.name), "bytes": size},
    }


def _endpoint(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    try:
        shown = str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        shown = host
    return {"ip": shown, "port": int(port) if port.isdecimal() else 0}
