"""Key stores and trust stores in PEM, PKCS12 and JKS, read from bytes.

Answers to: ``java.security.KeyStore`` and the stores of
``org.apache.kafka.common.security.ssl.DefaultSslEngineFactory``. Pure.

A file that Java calls JKS is often PKCS12, because Java 9 and later write that and read both by either name: the first
bytes of a store say which it is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
    PublicKeyTypes,
)
from cryptography.hazmat.primitives.serialization import pkcs12

from kafkalite.security.tls_names import PEM

_JKS_MAGIC: Final = 0xFEEDFEED
_JCEKS_MAGIC: Final = 0xCECECECE
_PRIVATE_KEY: Final = 1
_TRUSTED_CERTIFICATE: Final = 2
_DIGEST: Final = hashlib.sha1().digest_size
_PEM_OBJECT: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_LINE: Final = re.compile(rb".{1,64}")
_INT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">H")


class StoreError(ValueError):
    """A store cannot be used: the message says why, without a password or key."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key (PEM, not encrypted) and its certificate chain, the key's own certificate first."""

    key: bytes
    chain: tuple[x509.Certificate, ...]

    def __repr__(self) -> str:
        return f"KeyStore({self.chain[0].subject.rfc4514_string()})"


def read_key_store(data: bytes, kind: str, password: str | None, key_password: str | None) -> KeyStore:
    """The first key in a store of type ``kind`` with its certificates. Raises :class:`StoreError`.

    ``key_password`` is that of the key; a JKS store without one uses ``password`` for it.
    """
    if kind == PEM:
        return read_pem_key(data, data, key_password)
    if is_jks(data):
        entries = _JksReader(data).entries(password)
        found = next((entry for entry in entries if entry.key is not None), None)
        if found is None or found.key is None:
            raise StoreError("it has no private key")
        key = _unlock(found.key, password if key_password is None else key_password)
        return _key_store(_private_key(key), found.certificates)
    if key_password not in (None, password):
        raise StoreError("a PKCS12 store has one password: that of the key must be that of the store")
    store = _load_pkcs12(data, password)
    if store.key is None or store.cert is None:
        raise StoreError("it has no private key with a certificate")
    others = [each.certificate for each in store.additional_certs]
    return _key_store(_plain_pem(store.key), [store.cert.certificate, *others])


def read_trust_store(data: bytes, kind: str, password: str | None) -> tuple[x509.Certificate, ...]:
    """The trusted certificates of a store, at least one. Raises :class:`StoreError`."""
    if kind == PEM:
        return read_pem_certificates(data)
    if is_jks(data):
        found = [entry.certificates[0] for entry in _JksReader(data).entries(password) if entry.key is None]
    else:
        found = [each.certificate for each in _load_pkcs12(data, password).additional_certs]
    if not found:
        raise StoreError("it has no trusted certificate")
    return tuple(found)


def read_pem_key(key: bytes, chain: bytes, password: str | None) -> KeyStore:
    """A private key in PEM, encrypted by ``password`` or not, and its certificate chain in PEM."""
    keys = [pem for label, pem in _pem_objects(key) if label.endswith(b"PRIVATE KEY")]
    if not keys:
        raise StoreError("it has no private key in PEM")
    secret = None if password is None else password.encode()
    try:
        private = serialization.load_pem_private_key(keys[0], secret)
    except TypeError:
        if secret is not None:
            # Java takes a password for a key that has none.
            return read_pem_key(key, chain, None)
        raise StoreError("its private key is encrypted, and ssl.key.password is not set") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = "is wrong, or the password for it" if secret is not None else "cannot be read"
        raise StoreError(f"its private key {wrong}") from None
    return _key_store(_plain_pem(private), read_pem_certificates(chain))


def read_pem_certificates(data: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in PEM that ``data`` has, at least one. Raises :class:`StoreError`."""
    found = [pem for label, pem in _pem_objects(data) if label.endswith(b"CERTIFICATE")]
    if not found:
        raise StoreError("it has no certificate in PEM")
    try:
        return tuple(x509.load_pem_x509_certificate(pem) for pem in found)
    except ValueError:
        raise StoreError("it has a certificate in PEM that cannot be read") from None


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """The certificates in PEM, in order."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _pem_objects(data: bytes) -> list[tuple[bytes, bytes]]:
    """The labels and texts of the PEM objects in ``data``, which may have blanks where PEM has line ends.

    A text in server.properties is one line, also where it is written in several. Answers to: ``PemStore.PemParser``.
    """
    found = []
    for match in _PEM_OBJECT.finditer(data):
        label, body = match.groups()
        # A body with headers of its own (an old way to encrypt keys) stays as it is.
        lines = body.strip() if b":" in body else b"\n".join(_PEM_LINE.findall(b"".join(body.split())))
        found.append((label, b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label, lines, label)))
    return found


def is_jks(data: bytes) -> bool:
    """Whether ``data`` is a store in Java's own format. Raises :class:`StoreError` for its sibling JCEKS."""
    magic = _INT32.unpack_from(data)[0] if len(data) >= _INT32.size else 0
    if magic == _JCEKS_MAGIC:
        raise StoreError("it is a JCEKS store: change it to PKCS12 by keytool -importkeystore")
    return bool(magic == _JKS_MAGIC)


def _load_pkcs12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if data[:1] != b"\x30":
        raise StoreError("it is neither PKCS12 nor JKS")
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StoreError("its password is wrong, or it is damaged") from None


def _private_key(der: bytes) -> bytes:
    try:
        return _plain_pem(serialization.load_der_private_key(der, None))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StoreError("its private key cannot be read") from None


def _plain_pem(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _key_store(key: bytes, certificates: list[x509.Certificate] | tuple[x509.Certificate, ...]) -> KeyStore:
    """The key with its own certificate first, then issuer after issuer; other certificates are left out."""
    public = _public(serialization.load_pem_private_key(key, None).public_key())
    try:
        # Each part of a certificate is parsed when it is asked for.
        parts = [(each, _public(each.public_key()), each.subject, each.issuer) for each in certificates]
    except (ValueError, UnsupportedAlgorithm):
        raise StoreError("it has a certificate that cannot be read") from None
    found = [part for part in parts if part[1] == public][:1]
    if not found:
        raise StoreError("no certificate in it belongs to its private key")
    while True:
        _, _, subject, issuer = found[-1]
        issuers = [part for part in parts if part[2] == issuer and part not in found]
        if subject == issuer or not issuers:
            return KeyStore(key, tuple(part[0] for part in found))
        found.append(issuers[0])


def _public(key: PublicKeyTypes | CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


# Java's own format: a header, entries, and a digest over the password and all of it.


@dataclass(frozen=True, slots=True)
class _JksEntry:
    """A private key, still encrypted, with its chain; or, without ``key``, one trusted certificate."""

    key: bytes | None
    certificates: tuple[x509.Certificate, ...]


class _JksReader:
    """Reads a JKS store from its bytes. Answers to: ``sun.security.provider.JavaKeyStore``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = _INT32.size

    def entries(self, password: str | None) -> list[_JksEntry]:
        """All entries. Without ``password`` the store is not checked, as in Java. Raises :class:`StoreError`."""
        if password is not None:
            signed, digest = self._data[:-_DIGEST], self._data[-_DIGEST:]
            expected = hashlib.sha1(_java_password(password) + b"Mighty Aphrodite" + signed).digest()
            if not hmac.compare_digest(digest, expected):
                raise StoreError("its password is wrong, or it is damaged")
        version = self._number()
        if version not in (1, 2):
            raise StoreError(f"it is a JKS store of version {version}")
        return [self._entry(version) for _ in range(self._number())]

    def _entry(self, version: int) -> _JksEntry:
        tag = self._number()
        self._take(_INT16.unpack(self._take(2))[0])  # the alias
        self._take(8)  # its time
        if tag == _PRIVATE_KEY:
            key = self._take(self._number())
            return _JksEntry(key, tuple(self._certificate(version) for _ in range(self._number())))
        if tag == _TRUSTED_CERTIFICATE:
            return _JksEntry(None, (self._certificate(version),))
        raise StoreError("it has an entry that is neither a key nor a certificate")

    def _certificate(self, version: int) -> x509.Certificate:
        if version == 2:
            self._take(_INT16.unpack(self._take(2))[0])  # the type, always X.509
        try:
            return x509.load_der_x509_certificate(self._take(self._number()))
        except ValueError:
            raise StoreError("it has a certificate that cannot be read") from None

    def _number(self) -> int:
        return int(_INT32.unpack(self._take(_INT32.size))[0])

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data) - _DIGEST:
            raise StoreError("it is cut short")
        taken = self._data[self._position : end]
        self._position = end
        return taken


def _unlock(encrypted: bytes, password: str | None) -> bytes:
    """The private key in DER that a JKS store has encrypted. Answers to: ``sun.security.provider.KeyProtector``."""
    secret = _java_password(password or "")
    try:
        protected = _encrypted_data(encrypted)
    except IndexError:
        raise StoreError("its private key is cut short") from None
    salt, body, check = protected[:_DIGEST], protected[_DIGEST:-_DIGEST], protected[-_DIGEST:]
    stream = bytearray()
    block = salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise StoreError("the password of its private key is wrong")
    return key


def _encrypted_data(info: bytes) -> bytes:
    """The octets of ``EncryptedPrivateKeyInfo``: a sequence of an algorithm and an octet string."""
    _, begin = _der_length(info, 1)
    size, algorithm = _der_length(info, begin + 1)
    size, begin = _der_length(info, algorithm + size + 1)
    return info[begin : begin + size]


def _der_length(data: bytes, position: int) -> tuple[int, int]:
    """The length of the element whose length field is at ``position``, and where its content begins."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    begin = position + 1 + (first & 0x7F)
    return int.from_bytes(data[position + 1 : begin], "big"), begin


def _java_password(password: str) -> bytes:
    return password.encode("utf-16-be")
