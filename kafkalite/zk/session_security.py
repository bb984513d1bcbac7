"""How a connection to ZooKeeper is secured: TLS, and the identities that the client shows.

Answers to: ``org.apache.zookeeper.client.ZooKeeperSaslClient``, ``org.apache.zookeeper.common.ClientX509Util`` and
``com.sun.security.sasl.digest.DigestMD5Client``. Plain values and blocking sockets; it imports nothing but the standard
library, because the guardian of a broker runs it, too.
"""

from __future__ import annotations

import _socket
import hashlib
import hmac
import marshal
import os
import re
import secrets
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

AUTH_XID: Final = -4
_AUTH: Final = 100
_SASL: Final = 102
_REFUSED: Final = (-115, -124)
"""Errors for credentials that are wrong: of servers that ask for a login, and of those that demand it."""
_REALM: Final = "zk-sasl-md5"
"""The host that ZooKeeper's servers give to DIGEST-MD5, all alike."""
_PROTOCOLS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
PROTOCOLS: Final = tuple(_PROTOCOLS)
_CHALLENGE: Final = re.compile(rb'([a-zA-Z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,"\s]*))\s*(?:,\s*|$)')


class LoginRefusedError(Exception):
    """ZooKeeper refused the credentials, or could not prove that it knows them."""


@dataclass(frozen=True, slots=True)
class ZkTls:
    """TLS to ZooKeeper. ``key_store``: private key and certificate chain in PEM, empty for none.

    ``trust_store``: certificates in PEM; empty: the authorities of the system. ``protocols`` of :data:`PROTOCOLS`;
    ``ciphers`` in OpenSSL's names, empty for its own choice.
    """

    key_store: bytes = field(default=b"", repr=False)
    trust_store: bytes = b""
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: str = ""
    checks_host_names: bool = True


@dataclass(frozen=True, slots=True)
class ZkSecurity:
    """``digest``: ``user:password`` of ZooKeeper's digest scheme, empty for none. ``sasl``: user and password."""

    tls: ZkTls | None = None
    digest: str = field(default="", repr=False)
    sasl: tuple[str, str] | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        """For :meth:`decode` in another process of the same interpreter."""
        tls = self.tls
        fields = (
            None if tls is None else (tls.key_store, tls.trust_store, tls.protocols, tls.ciphers, tls.checks_host_names)
        )
        return marshal.dumps((fields, self.digest, self.sasl))

    @classmethod
    def decode(cls, data: bytes) -> ZkSecurity:
        """The reverse."""
        tls, digest, sasl = marshal.loads(data)
        return cls(None if tls is None else ZkTls(*tls), digest, sasl)


OPEN: Final = ZkSecurity()
"""No TLS, no identity."""


@cache
def tls_context(tls: ZkTls) -> ssl.SSLContext:
    """OpenSSL's context for ``tls``. Raises ``ssl.SSLError`` where OpenSSL refuses a key, certificate or cipher."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_host_names
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Java trusts every certificate of the trust store, also one that is not of an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [_PROTOCOLS[name] for name in tls.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if tls.ciphers:
        context.set_ciphers(tls.ciphers)
    if tls.trust_store:
        context.load_verify_locations(cadata=tls.trust_store.decode("ascii"))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.key_store:
        # OpenSSL reads the key from a file: from memory, so that no disk sees it.
        fd = os.memfd_create("kafkalite-zookeeper-key", os.MFD_CLOEXEC)
        try:
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.write(tls.key_store)
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    return context


def secured(connection: _socket.socket, host: str, tls: ZkTls | None) -> _socket.socket:
    """``connection`` after the TLS handshake with ``host``; the same where ``tls`` is ``None``. Raises ``OSError``.

    The handshake is within the timeout of ``connection``, which is closed if it fails.
    """
    if tls is None:
        return connection
    timeout = connection.gettimeout()
    plain = socket.socket(fileno=connection.detach())
    try:
        plain.settimeout(timeout)
        return tls_context(tls).wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


def digest_request(digest: str) -> bytes:
    """The packet that shows ``user:password`` in the digest scheme, with its length."""
    name, secret = b"digest", digest.encode()
    body = struct.pack(f">iiii{len(name)}si{len(secret)}s", AUTH_XID, _AUTH, 0, len(name), name, len(secret), secret)
    return struct.pack(">i", len(body)) + body


def log_in(sasl: tuple[str, str], send: Callable[[bytes], object], receive: Callable[[], bytes]) -> None:
    """Log in by DIGEST-MD5 on a new connection. ``send`` takes frames with their length, ``receive`` gives one without.

    Raises :class:`LoginRefusedError`, and the errors of ``send`` and ``receive``.
    """
    exchange = DigestMd5(*sasl)
    token = b""
    for xid in (1, 2):
        body = struct.pack(f">iii{len(token)}s", xid, _SASL, len(token), token)
        send(struct.pack(">i", len(body)) + body)
        answer = receive()
        _, _, error = struct.unpack_from(">iqi", answer)
        if error:
            why = "user or password is wrong" if error in _REFUSED else f"ZooKeeper answered error {error}"
            raise LoginRefusedError(why)
        (length,) = struct.unpack_from(">i", answer, 16)
        challenge = answer[20 : 20 + max(length, 0)]
        if xid == 1:
            token = exchange.respond(challenge)
        else:
            exchange.check(challenge)


class DigestMd5:
    """The client's side of DIGEST-MD5 (RFC 2831), quality of protection ``auth``: one response, one check."""

    def __init__(self, user: str, password: str, uri: str = f"zookeeper/{_REALM}", nonce: str = "") -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._client_nonce = nonce or secrets.token_urlsafe(24)
        self._proof = b""

    def respond(self, challenge: bytes) -> bytes:
        """The response to the server's challenge. Raises :class:`LoginRefusedError`."""
        fields = _fields(challenge)
        nonce, realm = fields.get("nonce"), fields.get("realm", _REALM)
        if nonce is None or fields.get("algorithm", "md5-sess") != "md5-sess":
            raise LoginRefusedError("the server's challenge is not one of DIGEST-MD5")
        if "auth" not in fields.get("qop", "auth").split(","):
            raise LoginRefusedError("the server wants its answers signed or encrypted")
        secret = _md5(f"{self._user}:{realm}:{self._password}".encode())
        session = _md5(secret + f":{nonce}:{self._client_nonce}".encode()).hex()
        rest = f"{nonce}:00000001:{self._client_nonce}:auth"
        response = _proof(session, rest, f"AUTHENTICATE:{self._uri}")
        self._proof = _proof(session, rest, f":{self._uri}")
        return (
            f'charset=utf-8,username="{_quoted(self._user)}",realm="{_quoted(realm)}",nonce="{_quoted(nonce)}",'
            f'nc=00000001,cnonce="{self._client_nonce}",digest-uri="{self._uri}",maxbuf=65536,'
            f"response={response.decode()},qop=auth"
        ).encode()

    def check(self, answer: bytes) -> None:
        """Check the server's proof that it knows the password. Raises :class:`LoginRefusedError`."""
        shown = _fields(answer).get("rspauth", "").encode()
        if not self._proof or not hmac.compare_digest(shown, self._proof):
            raise LoginRefusedError("the server did not prove that it knows the password")


def _fields(text: bytes) -> dict[str, str]:
    found = {}
    for name, quoted, plain in _CHALLENGE.findall(text):
        value = re.sub(rb"\\(.)", rb"\1", quoted) or plain
        found[name.decode().lower()] = value.decode("utf-8", "replace")
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _proof(session: str, rest: str, subject: str) -> bytes:
    return _md5(f"{session}:{rest}:{_md5(subject.encode()).hex()}".encode()).hex().encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
