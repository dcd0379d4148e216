"""Log in on a raw connection, with SCRAM-SHA-256."""

import base64
import hashlib
import hmac

from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document

_HASH = "sha256"


def log_in(raw: RawClient, user: str, password: str, database: str = "admin") -> Document:
    """Log in and return the last reply, which may be an error."""
    first = f"n={user},r=abcdefghijklmnopqrstuvwx"
    reply = raw.call(
        {
            "saslStart": 1,
            "mechanism": "SCRAM-SHA-256",
            "payload": f"n,,{first}".encode(),
            "options": {"skipEmptyExchange": True},
            "$db": database,
        }
    )
    if not reply["ok"]:
        return reply
    challenge = bytes(reply["payload"]).decode()
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    salted = hashlib.pbkdf2_hmac(_HASH, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", _HASH)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), message, _HASH)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    last = f"{without_proof},p={proof}".encode()
    number = reply["conversationId"]
    return raw.call({"saslContinue": 1, "conversationId": number, "payload": last, "$db": database})
