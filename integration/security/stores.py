"""Certificates for brokers and clients, in every kind of store that Kafka reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kafkalite.broker.properties import load_properties
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports

PASSWORD = "store-secret"
HOSTS = ("localhost", "127.0.0.1")


class Stores:
    """One authority, and what it signs, in ``directory``. The names of files: ``NAME.pem``, ``NAME.p12``, ``NAME.jks``.

    ``ca.pem``, ``ca.p12`` and ``ca.jks`` are trust stores.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.authority = trustme.CA(organization_name="kafkalite tests")
        self.authority.cert_pem.write_to_path(str(self.path("ca.pem")))

    def path(self, name: str) -> Path:
        """The file of that name."""
        return self.directory / name

    def issue(self, name: str, *hosts: str, common_name: str | None = None) -> Path:
        """A key and its certificate for ``hosts``, in one PEM file."""
        issued = self.authority.issue_cert(
            *(hosts or HOSTS), common_name=common_name, organization_name="kafkalite", organization_unit_name="tests"
        )
        path = self.path(f"{name}.pem")
        # Kafka reads keys in PKCS#8 only; trustme writes the older form.
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(key + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path

    def issue_to(self, name: str, subject: Sequence[tuple[str, str]]) -> Path:
        """A key and a client's certificate with that ``subject``: pairs of a keyword or OID, and a text."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(
                x509.load_pem_x509_certificate(self.authority.cert_pem.bytes()).subject,
                x509.Name([_attribute(*pair) for pair in subject]),
                key.public_key(),
                x509.random_serial_number(),
                now - timedelta(days=1),
                now + timedelta(days=30),
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(
                serialization.load_pem_private_key(self.authority.private_key_pem.bytes(), None),  # type: ignore[arg-type]
                hashes.SHA256(),
            )
        )
        path = self.path(f"{name}.pem")
        pem = serialization.Encoding.PEM
        path.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            + certificate.public_bytes(pem)
        )
        return path

    def java_store(self, name: str, kind: str, password: str = PASSWORD) -> Path:
        """The key of ``NAME.pem`` in a store that keytool writes; ``kind`` is PKCS12 or JKS."""
        temporary, path = self.path(f"{name}.from-openssl"), self.path(f"{name}.{_ENDINGS[kind]}")
        pem = str(self.path(f"{name}.pem"))
        run(
            "openssl", "pkcs12", "-export", "-in", pem, "-out", temporary, "-name", name, "-passout", f"pass:{PASSWORD}"
        )
        path.unlink(missing_ok=True)
        keytool(
            "-importkeystore",
            *("-srckeystore", temporary, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD),
            *("-destkeystore", path, "-deststoretype", kind, "-deststorepass", password),
        )
        return path

    def java_trust_store(self, kind: str) -> Path:
        """The authority in a trust store that keytool writes."""
        path = self.path(f"ca.{_ENDINGS[kind]}")
        path.unlink(missing_ok=True)
        keytool(
            *("-importcert", "-noprompt", "-alias", "ca", "-file", self.path("ca.pem")),
            *("-keystore", path, "-storetype", kind, "-storepass", PASSWORD),
        )
        return path

    def properties(self, name: str, kind: str, prefix: str = "") -> dict[str, str]:
        """The ``ssl.*`` of one who has the key of ``name`` and trusts the authority, from stores of ``kind``.

        ``INLINE`` is PEM without files.
        """
        if kind == "INLINE":
            pem = self.path(f"{name}.pem").read_text()
            end = pem.index("-----BEGIN CERTIFICATE")
            found = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": _one_line(pem[:end]),
                "ssl.keystore.certificate.chain": _one_line(pem[end:]),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _one_line(self.path("ca.pem").read_text()),
            }
        else:
            found = {
                "ssl.keystore.type": kind,
                "ssl.keystore.location": str(self.path(f"{name}.{_ENDINGS[kind]}")),
                "ssl.truststore.type": kind,
                "ssl.truststore.location": str(self.path(f"ca.{_ENDINGS[kind]}")),
            }
            if kind != "PEM":
                found |= {"ssl.keystore.password": PASSWORD, "ssl.truststore.password": PASSWORD}
        return {prefix + key: value for key, value in found.items()}


_ENDINGS = {"PEM": "pem", "PKCS12": "p12", "JKS": "jks"}


_KEYWORDS = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "C": NameOID.COUNTRY_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
}


def _attribute(keyword: str, text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(_KEYWORDS.get(keyword) or x509.ObjectIdentifier(keyword), text, _validate=False)


def _one_line(pem: str) -> str:
    """As a line of server.properties has it: line ends are written as escapes."""
    return pem.strip().replace("\n", "\\n")


def add_listeners(cluster: LocalCluster, names: Sequence[str]) -> dict[tuple[int, str], int]:
    """Give every broker of a cluster that is not started the listeners ``names`` of protocol SSL, beside PLAINTEXT.

    Their ports by broker and name.
    """
    cluster.directory.mkdir(parents=True, exist_ok=True)
    cluster.start_zookeeper()
    found: dict[tuple[int, str], int] = {}
    for broker_id in cluster.broker_ids:
        plain = load_properties(cluster._write_properties(broker_id))
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        found |= {(broker_id, name): port for name, port in ports.items()}
        listeners = [plain["listeners"], *(f"{name}://127.0.0.1:{port}" for name, port in ports.items())]
        protocols = [plain["listener.security.protocol.map"], *(f"{name}:SSL" for name in names)]
        cluster.override_broker(
            broker_id,
            {"listeners": ",".join(listeners), "listener.security.protocol.map": ",".join(protocols)},
        )
    return found


def keytool(*arguments: object) -> None:
    """Run Java's keytool."""
    run(shutil.which("keytool") or "keytool", *arguments)


def run(*command: object) -> str:
    """Run a program; its standard output. Fails with what it wrote."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
