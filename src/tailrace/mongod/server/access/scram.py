"""SCRAM (RFC 5802, RFC 7677): stored credentials, and the server's part of a log-in.

A stored credential cannot be used to log in, and the password cannot be computed from it. The proof is
compared in constant time.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.mongod.server.access.saslprep import saslprep

SHA_1: Final = "SCRAM-SHA-1"
SHA_256: Final = "SCRAM-SHA-256"
_NONCE_BYTES: Final = 24
_NO_CHANNEL_BINDING: Final = "n,,"
_HEADER: Final = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()


@dataclass(frozen=True, slots=True)
class Mechanism:
    name: str
    hash_name: str
    salt_bytes: int
    iterations_parameter: str

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def sign(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)

    def secret(self, user: str, password: str, *, is_digested: bool = False) -> bytes:
        """The text that is salted; raises ValueError if the password is not allowed.

        SCRAM-SHA-1 salts a digest of name and password, because old servers stored only that. With
        ``is_digested`` the client has computed it.
        """
        if self.name == SHA_256:
            return saslprep(password).encode()
        if is_digested:
            return password.encode()
        digest = hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False)
        return digest.hexdigest().encode()

    def credential(self, secret: bytes, iterations: int) -> dict[str, Any]:
        """What is stored of a password."""
        salt = secrets.token_bytes(self.salt_bytes)
        salted = hashlib.pbkdf2_hmac(self.hash_name, secret, salt, iterations)
        return {
            "iterationCount": iterations,
            "salt": base64.b64encode(salt).decode(),
            "storedKey": base64.b64encode(self.hash(self.sign(salted, b"Client Key"))).decode(),
            "serverKey": base64.b64encode(self.sign(salted, b"Server Key")).decode(),
        }


MECHANISMS: Final = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(SHA_1, "sha1", 16, "scramIterationCount"),
        Mechanism(SHA_256, "sha256", 28, "scramSHA256IterationCount"),
    )
}


class ScramError(Exception):
    """A message that violates the protocol, or a proof that is wrong; clients do not see which."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    user: str
    nonce: str
    bare: str
    """The part that is signed."""

    @classmethod
    def parse(cls, payload: bytes) -> "ClientFirst":
        text = _text(payload)
        if not text.startswith(_NO_CHANNEL_BINDING):
            raise ScramError("channel binding and other identities are not supported")
        bare = text.removeprefix(_NO_CHANNEL_BINDING)
        fields = bare.split(",")
        if len(fields) != 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
            raise ScramError("the first message has a name and a nonce")
        user, nonce = _unescaped(fields[0][2:]), fields[1][2:]
        if not user or not nonce:
            raise ScramError("the name or the nonce is empty")
        return cls(user, nonce, bare)


class ServerExchange:
    """The server's part after the first message of a client."""

    def __init__(self, mechanism: Mechanism, first: ClientFirst, credential: Mapping[str, Any]) -> None:
        self._mechanism = mechanism
        self._nonce = first.nonce + base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        self._stored_key = base64.b64decode(credential["storedKey"])
        self._server_key = base64.b64decode(credential["serverKey"])
        self.challenge = f"r={self._nonce},s={credential['salt']},i={credential['iterationCount']}"
        """The reply to the first message."""
        self._bare = first.bare

    def finish(self, payload: bytes) -> bytes:
        """The server's signature in reply to a valid proof; raises `ScramError` for any other one."""
        text = _text(payload)
        without_proof, separator, proof_text = text.rpartition(",p=")
        if not separator or without_proof != f"c={_HEADER},r={self._nonce}":
            raise ScramError("the last message does not belong to this exchange")
        proof = _decoded(proof_text)
        message = f"{self._bare},{self.challenge},{without_proof}".encode()
        signature = self._mechanism.sign(self._stored_key, message)
        if len(proof) != len(signature):
            raise ScramError("the proof has a wrong size")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(self._mechanism.hash(client_key), self._stored_key):
            raise ScramError("the proof is wrong")
        return b"v=" + base64.b64encode(self._mechanism.sign(self._server_key, message))


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise ScramError("the message is no text") from None


def _unescaped(name: str) -> str:
    rest = name.replace("=2C", "").replace("=3D", "")
    if "=" in rest:
        raise ScramError("the name is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("the proof is not in base64") from None
