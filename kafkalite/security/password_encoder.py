"""Passwords in ``/config/brokers``, encrypted by ``password.encoder.secret``.

Answers to: ``org.apache.kafka.security.EncryptingPasswordEncoder``. Pure.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

CIPHER: Final = "AES/CBC/PKCS5Padding"
"""The one cipher that is served, Kafka's default."""
KEY_FACTORIES: Final = {
    "PBKDF2WithHmacSHA512": "sha512",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA1": "sha1",
}
"""Java's names of the functions that make a key of a secret, Kafka's default first → Python's names of digests."""
KEY_LENGTHS: Final = (128, 192, 256)
_SALT: Final = 256
_BLOCK: Final = 16


class PasswordError(ValueError):
    """A text is not a password that was encrypted by the secret at hand."""


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """Encrypts and decrypts by ``secret``; ``random_bytes`` must be unpredictable. ``key_length`` is in bits."""

    secret: str
    random_bytes: Callable[[int], bytes]
    key_factory: str = "PBKDF2WithHmacSHA512"
    key_length: int = 128
    iterations: int = 4096

    def __repr__(self) -> str:
        return "PasswordEncoder"

    def encode(self, password: str) -> str:
        """The encrypted password with all that decrypts it but the secret."""
        salt, vector = self.random_bytes(_SALT), self.random_bytes(_BLOCK)
        key = self._key(self.key_factory, salt, self.iterations, self.key_length)
        padder = PKCS7(8 * _BLOCK).padder()
        padded = padder.update(password.encode()) + padder.finalize()
        encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
        fields = {
            "cipherAlgorithm": CIPHER,
            "encryptedPassword": _text(encryptor.update(padded) + encryptor.finalize()),
            "initializationVector": _text(vector),
            "iterations": str(self.iterations),
            "keyFactoryAlgorithm": self.key_factory,
            "keyLength": str(self.key_length),
            "passwordLength": str(_java_length(password)),
            "salt": _text(salt),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """The inverse of :meth:`encode`. Raises :class:`PasswordError`."""
        fields = dict(part.strip().partition(":")[::2] for part in text.split(","))
        try:
            if fields["cipherAlgorithm"] != CIPHER:
                raise PasswordError(f"it was encrypted by {fields['cipherAlgorithm']}, and only {CIPHER} is served")
            key = self._key(
                fields["keyFactoryAlgorithm"],
                base64.b64decode(fields["salt"], validate=True),
                int(fields["iterations"]),
                int(fields["keyLength"]),
            )
            vector = base64.b64decode(fields["initializationVector"], validate=True)
            decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
            encrypted = base64.b64decode(fields["encryptedPassword"], validate=True)
            padder = PKCS7(8 * _BLOCK).unpadder()
            padded = decryptor.update(encrypted) + decryptor.finalize()
            password = (padder.update(padded) + padder.finalize()).decode()
            if _java_length(password) != int(fields["passwordLength"]):
                raise PasswordError("it has another length than was noted")
        except PasswordError:
            raise
        except (KeyError, ValueError, OverflowError):
            raise PasswordError("it was not encrypted by password.encoder.secret, or it is damaged") from None
        return password

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        digest = KEY_FACTORIES[factory]
        if bits not in KEY_LENGTHS:
            raise PasswordError(f"a key of {bits} bits is none of AES")
        return hashlib.pbkdf2_hmac(digest, self.secret.encode(), salt, iterations, bits // 8)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _java_length(text: str) -> int:
    """The length of ``text`` as Java counts it."""
    return len(text.encode("utf-16-be")) // 2
