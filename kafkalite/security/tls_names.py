"""Names in the configuration of TLS: types of stores, and cipher suites, which OpenSSL spells in its own way.

Answers to: ``java.security.KeyStore.getType`` and ``javax.net.ssl.SSLEngine.setEnabledCipherSuites``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkalite.common.config import ConfigValue

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
STORE_TYPES: Final = (JKS, PKCS12, PEM)

TLS_1_3_SUITES: Final = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
"""The suites of TLS 1.3 that OpenSSL uses; its names are the standard's."""

_SUITE: Final = re.compile(r"TLS_(\w+?)_WITH_(\w+)_(SHA\d*)")


def unknown_suites(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that are no cipher suites of TLS 1.3 or 1.2."""
    return [name for name in names if name not in TLS_1_3_SUITES and openssl_name(name) is None]


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2 (``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``); ``None`` if it is none."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return None
    exchange, cipher, digest = found.groups()
    if cipher == "CHACHA20_POLY1305":
        cipher, digest = "CHACHA20-POLY1305", ""
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).removesuffix("_CBC").replace("_", "-")
    parts = ("" if exchange == "RSA" else exchange.replace("_", "-"), cipher, digest)
    return "-".join(part for part in parts if part)


def suites_fault(value: ConfigValue) -> str | None:
    """A :attr:`ConfigKey.check` of cipher suites."""
    names = value if isinstance(value, tuple) else ()
    if not unknown_suites(names):
        return None
    return "names such as TLS_AES_256_GCM_SHA384 and TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


def store_type_fault(value: ConfigValue) -> str | None:
    """A :attr:`ConfigKey.check` of the type of a store."""
    return None if str(value or "").upper() in STORE_TYPES else ", ".join(STORE_TYPES)
