"""The certificate authority of a local cluster, and the certificates that it signs, as PEM files.

Answers to: ``openssl req`` and ``openssl x509`` of the instructions in Kafka's documentation of TLS. Blocking: files.

Keys are of the curve P-256, because every TLS library that Kafka's clients use knows it and its handshakes are fast.
Needs the package ``cryptography``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafkalite.embedded.whole_files import write_private

KEY_FILE = "ca-key.pem"
LIFETIME = timedelta(days=3650)
_EARLIER = timedelta(days=1)
"""Certificates are valid since yesterday, because the clocks of a client and of this machine may differ."""


class CertificateAuthority:
    """The authority whose certificate is the file ``certificate``, with its key in ``ca-key.pem`` beside it."""

    def __init__(self, certificate: Path) -> None:
        self._certificate = certificate
        self._key = certificate.with_name(KEY_FILE)

    def create(self) -> None:
        """Make key and certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("kafkalite CA")
        builder = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        write_private(self._key, _key_text(key))
        self._certificate.write_text(_text(builder, key))

    def issue(self, file: Path, common_name: str, hosts: Sequence[str]) -> None:
        """Write a new key and its certificate for ``CN=common_name`` into ``file``, of mode 0600.

        The certificate is valid for a server at ``hosts`` (names and IP addresses), and for a client.
        """
        authority = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        signer = serialization.load_pem_private_key(self._key.read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(_name(common_name), authority.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        )
        write_private(file, _key_text(key) + _text(builder, signer))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _text(builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey) -> str:
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    # PKCS#8, because Kafka and ZooKeeper read no other form.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
