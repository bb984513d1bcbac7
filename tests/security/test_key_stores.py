"""Key stores and trust stores: those that keytool wrote, PEM in all its forms, and what is refused."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kafkalite.security.key_stores import (
    KeyStore,
    StoreError,
    read_key_store,
    read_pem_certificates,
    read_pem_key,
    read_trust_store,
)
from kafkalite.security.tls_names import JKS, PEM, PKCS12, openssl_name

PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"
# Stores with an EC key, "CN=broker,O=Kafkalite" and "CN=authority", as keytool of Java 17 writes them.
STORES = {
    name: base64.b64decode(text)
    for name, text in json.loads((Path(__file__).parent / "data" / "java_stores.json").read_text()).items()
}
AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)
ISSUED = AUTHORITY.issue_cert("broker", key_type=trustme.KeyType.ECDSA)
KEY = ISSUED.private_key_pem.bytes()
CHAIN = b"".join(each.bytes() for each in ISSUED.cert_chain_pems) + AUTHORITY.cert_pem.bytes()


def names(store: KeyStore | tuple[x509.Certificate, ...]) -> list[str]:
    chain = store.chain if isinstance(store, KeyStore) else store
    return [certificate.subject.rfc4514_string() for certificate in chain]


def encrypted(form: serialization.PrivateFormat) -> bytes:
    key = serialization.load_pem_private_key(KEY, None)
    return key.private_bytes(
        serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    )


@pytest.mark.parametrize("kind", [JKS, PKCS12])
@pytest.mark.parametrize(("name", "key_password"), [("key.jks", KEY_PASSWORD), ("key.pkcs12", None)])
def test_a_key_store_of_java_is_read_under_both_names_of_its_type(
    name: str, key_password: str | None, kind: str
) -> None:
    store = read_key_store(STORES[name], kind, PASSWORD, key_password)
    assert names(store) == ["CN=broker,O=Kafkalite", "CN=authority"]
    key = serialization.load_pem_private_key(store.key, None)
    assert key.public_key() == store.chain[0].public_key()


@pytest.mark.parametrize("name", ["trust.jks", "trust.pkcs12"])
def test_a_trust_store_of_java_is_read(name: str) -> None:
    assert names(read_trust_store(STORES[name], JKS, PASSWORD)) == ["CN=authority"]


def test_a_jks_trust_store_needs_no_password() -> None:
    assert names(read_trust_store(STORES["trust.jks"], JKS, None)) == ["CN=authority"]


@pytest.mark.parametrize(
    ("name", "password", "key_password", "why"),
    [
        ("key.jks", "a-guess", KEY_PASSWORD, "its password is wrong, or it is damaged"),
        ("key.jks", PASSWORD, None, "the password of its private key is wrong"),
        ("key.jks", PASSWORD, "wrong", "the password of its private key is wrong"),
        ("key.pkcs12", "a-guess", None, "its password is wrong, or it is damaged"),
        ("key.pkcs12", PASSWORD, "another", "must be that of the store"),
        ("trust.jks", PASSWORD, None, "it has no private key"),
        ("trust.pkcs12", PASSWORD, None, "it has no private key"),
    ],
)
def test_a_key_store_that_cannot_be_used_is_refused(
    name: str, password: str, key_password: str | None, why: str
) -> None:
    with pytest.raises(StoreError) as caught:
        read_key_store(STORES[name], JKS, password, key_password)
    assert why in str(caught.value)
    assert password not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "neither PKCS12 nor JKS"),
        (b"-----BEGIN CERTIFICATE-----", "neither PKCS12 nor JKS"),
        (bytes.fromhex("cececece00000002"), "JCEKS"),
        (bytes.fromhex("feedfeed00000009") + bytes(40), "version 9"),
        (bytes.fromhex("feedfeed00000002ffffffff") + bytes(40), "neither a key nor a certificate"),
        (bytes.fromhex("feedfeed000000020000000100000002ffff") + bytes(40), "cut short"),
    ],
)
def test_bytes_that_are_no_store_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(StoreError, match=why):
        read_trust_store(data, JKS, None)


def test_no_damage_to_a_store_raises_anything_but_a_store_error() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        data = bytearray(STORES["key.jks"])
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            read_key_store(bytes(data[: rng.randrange(len(data))]), JKS, None, KEY_PASSWORD)
        except StoreError:
            pass


@pytest.mark.parametrize(
    ("key", "password"),
    [
        (KEY, None),
        (KEY, "a password that it does not need"),
        (encrypted(serialization.PrivateFormat.PKCS8), KEY_PASSWORD),
        (encrypted(serialization.PrivateFormat.TraditionalOpenSSL), KEY_PASSWORD),
    ],
    ids=["plain", "plain with a password", "PKCS#8", "traditional"],
)
def test_a_key_in_pem_is_read(key: bytes, password: str | None) -> None:
    expected = names(read_pem_certificates(CHAIN))
    assert names(read_key_store(key + CHAIN, PEM, None, password)) == expected
    assert names(read_key_store(CHAIN + key, PEM, None, password)) == expected
    assert names(read_pem_key(key, CHAIN, password)) == expected


def test_pem_on_one_line_is_read_as_a_properties_file_gives_it() -> None:
    key, chain = (text.replace(b"\n", b" ") for text in (encrypted(serialization.PrivateFormat.PKCS8), CHAIN))
    assert names(read_pem_key(key, chain, KEY_PASSWORD)) == names(read_pem_certificates(CHAIN))
    assert len(read_trust_store(chain, PEM, None)) == 2


@pytest.mark.parametrize(
    ("data", "password", "why"),
    [
        (CHAIN, None, "no private key in PEM"),
        (KEY, None, "no certificate in PEM"),
        (encrypted(serialization.PrivateFormat.PKCS8) + CHAIN, None, "ssl.key.password is not set"),
        (encrypted(serialization.PrivateFormat.PKCS8) + CHAIN, "wrong", "is wrong, or the password for it"),
        (KEY + AUTHORITY.cert_pem.bytes(), None, "no certificate in it belongs to its private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", None, "cannot be read"),
        (KEY + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None, "cannot be read"),
    ],
)
def test_pem_that_cannot_be_used_is_refused(data: bytes, password: str | None, why: str) -> None:
    with pytest.raises(StoreError, match=why):
        read_key_store(data, PEM, None, password)


def test_the_chain_begins_with_the_certificate_of_the_key() -> None:
    backwards = AUTHORITY.cert_pem.bytes() + ISSUED.cert_chain_pems[0].bytes()
    assert names(read_pem_key(KEY, backwards, None)) == names(read_pem_certificates(CHAIN))


def test_a_key_is_not_shown() -> None:
    assert "PRIVATE" not in repr(read_pem_key(KEY, CHAIN, None))


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", None),
        ("ECDHE-RSA-AES128-GCM-SHA256", None),
        ("nonsense", None),
    ],
)
def test_suites_of_tls_1_2_have_the_names_of_openssl(standard: str, openssl: str | None) -> None:
    assert openssl_name(standard) == openssl
