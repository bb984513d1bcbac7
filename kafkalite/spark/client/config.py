"""The client's settings, from the options ``kafka.*``.

Answers to: ``org.apache.kafka.clients.{CommonClientConfigs,ConsumerConfig}`` and ``common.config.SslConfigs``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkalite.common.token_endpoint import ClientCredentials

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
GSSAPI = "GSSAPI"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", GSSAPI, OAUTHBEARER)
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_MODULE = re.compile(r"^\s*(\S+)\s+(required|requisite|sufficient|optional)\b(.*?);?\s*$", re.S)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


class ClientConfigError(ValueError):
    """A ``kafka.*`` option is missing or invalid. The text names the option, its value and what is allowed."""


@dataclass(frozen=True)
class SslConfig:
    """TLS: trusted certificates, and the client's own. Names are the Java client's; files and certificates are PEM."""

    truststore_location: str | None = None
    truststore_certificates: str | None = field(default=None, repr=False)
    keystore_location: str | None = None
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True)
class SaslConfig:
    """A mechanism with user name and password; GSSAPI with the brokers' service name and, if it is not to use the
    tickets that the user has, a keytab and a principal in it; OAUTHBEARER with a token endpoint."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    service: str = ""
    keytab: str = ""
    principal: str = ""
    tokens: ClientCredentials | None = None


@dataclass(frozen=True)
class ClientConfig:
    """Settings of a client; times in milliseconds, sizes in bytes."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = "kafkalite-spark"
    security_protocol: str = "PLAINTEXT"
    ssl: SslConfig = field(default_factory=SslConfig)
    sasl: SaslConfig | None = None
    isolation_level: str = "read_uncommitted"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connection_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 << 20
    max_partition_fetch_bytes: int = 4 << 20
    check_crcs: bool = True

    @classmethod
    def from_kafka(cls, options: Mapping[str, str], **defaults: str) -> ClientConfig:
        """From options under Kafka's names, without the prefix ``kafka.``; unknown names are ignored.

        ``defaults``: values of options that are not given (with ``_`` for the dots). Raises
        :class:`ClientConfigError`.
        """
        given = {name.replace("_", "."): value for name, value in defaults.items()} | {
            name.lower(): value for name, value in options.items()
        }
        protocol = given.get("security.protocol", "PLAINTEXT").upper()
        _one_of("security.protocol", protocol, PROTOCOLS)
        isolation = given.get("isolation.level", "read_uncommitted")
        _one_of("isolation.level", isolation, ISOLATION_LEVELS)
        numbers = {
            attribute: _number(given, name, least)
            for attribute, (name, least) in _NUMBERS.items()
            if given.get(name, "") != ""
        }
        return cls(
            _servers(given.get("bootstrap.servers", "")),
            client_id=given.get("client.id", "kafkalite-spark"),
            security_protocol=protocol,
            ssl=_ssl(given),
            sasl=_sasl(given) if protocol.startswith("SASL") else None,
            isolation_level=isolation,
            check_crcs=given.get("check.crcs", "true").lower() != "false",
            **numbers,
        )

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are kept from readers."""
        return self.isolation_level == "read_committed"


_NUMBERS = {
    "request_timeout_ms": ("request.timeout.ms", 1),
    "default_api_timeout_ms": ("default.api.timeout.ms", 1),
    "connection_timeout_ms": ("socket.connection.setup.timeout.ms", 1),
    "retry_backoff_ms": ("retry.backoff.ms", 0),
    "retry_backoff_max_ms": ("retry.backoff.max.ms", 0),
    "fetch_max_wait_ms": ("fetch.max.wait.ms", 0),
    "fetch_min_bytes": ("fetch.min.bytes", 0),
    "fetch_max_bytes": ("fetch.max.bytes", 1),
    "max_partition_fetch_bytes": ("max.partition.fetch.bytes", 1),
}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ClientConfigError(f"Invalid value {value} for kafka.{name}: it must be one of {', '.join(allowed)}")


def _number(given: Mapping[str, str], name: str, least: int) -> int:
    try:
        number = int(given[name])
    except ValueError:
        raise ClientConfigError(f"Invalid value {given[name]} for kafka.{name}: not a number") from None
    if number < least:
        raise ClientConfigError(f"Invalid value {number} for kafka.{name}: it must be at least {least}")
    return number


def _servers(text: str) -> tuple[tuple[str, int], ...]:
    servers = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = item.rpartition("://")[2].rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ClientConfigError(f"Invalid url in kafka.bootstrap.servers: {item} (host:port is meant)")
        servers.append((host.strip("[]"), int(port)))
    if not servers:
        raise ClientConfigError("No resolvable bootstrap urls given in kafka.bootstrap.servers")
    return tuple(servers)


def _ssl(given: Mapping[str, str]) -> SslConfig:
    return SslConfig(
        given.get("ssl.truststore.location") or None,
        given.get("ssl.truststore.certificates") or None,
        given.get("ssl.keystore.location") or None,
        given.get("ssl.keystore.key") or None,
        given.get("ssl.keystore.certificate.chain") or None,
        given.get("ssl.key.password") or None,
        given.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
    )


def _sasl(given: Mapping[str, str]) -> SaslConfig:
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise ClientConfigError(
            f"Invalid value {mechanism} for kafka.sasl.mechanism: this client knows {', '.join(MECHANISMS)}"
        )
    module = _MODULE.match(given.get("sasl.jaas.config", ""))
    if module is None:
        raise ClientConfigError(
            "kafka.sasl.jaas.config is missing or malformed; for example: "
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'
        )
    found = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(module.group(3))
    }
    if mechanism == GSSAPI:
        return _kerberos(given, found)
    if mechanism == OAUTHBEARER:
        return _tokens(given, found)
    if "username" not in found or "password" not in found:
        raise ClientConfigError("kafka.sasl.jaas.config names no username or no password")
    return SaslConfig(mechanism, found["username"], found["password"])


def _kerberos(given: Mapping[str, str], options: Mapping[str, str]) -> SaslConfig:
    service = given.get("sasl.kerberos.service.name") or options.get("serviceName", "")
    if not service:
        raise ClientConfigError(
            "kafka.sasl.kerberos.service.name is missing: the first part of the brokers' principals"
        )
    if options.get("useKeyTab", "").lower() != "true":
        return SaslConfig(GSSAPI, service=service)
    if not options.get("keyTab") or not options.get("principal"):
        raise ClientConfigError("kafka.sasl.jaas.config names no keyTab or no principal")
    return SaslConfig(GSSAPI, service=service, keytab=options["keyTab"], principal=options["principal"])


def _tokens(given: Mapping[str, str], options: Mapping[str, str]) -> SaslConfig:
    url = given.get(_TOKEN_URL, "")
    is_file = url.startswith("file:")
    if not url or not (is_file or (options.get("clientId") and options.get("clientSecret"))):
        raise ClientConfigError(
            f"OAUTHBEARER needs kafka.{_TOKEN_URL}, and clientId and clientSecret in kafka.sasl.jaas.config unless the "
            "URL names a file"
        )
    client_id, secret, scope = (options.get(name, "") for name in ("clientId", "clientSecret", "scope"))
    return SaslConfig(OAUTHBEARER, tokens=ClientCredentials(url, client_id, secret, scope))
