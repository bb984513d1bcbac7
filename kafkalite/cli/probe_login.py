"""How ``kafkalite.embedded.probe`` logs in at a broker, by the client properties of the commands.

Answers to: nothing in Kafka. Blocking: files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kafkalite.cli.clients import with_login
from kafkalite.common.errors import ConfigError
from kafkalite.spark.client.config import ClientConfig, SaslConfig, SslConfig

_WITHOUT_LOGIN = {"SASL_PLAINTEXT": "PLAINTEXT", "SASL_SSL": "SSL"}


def probe_login(properties: Mapping[str, str]) -> ClientConfig | None:
    """The probe's settings for ``properties``, which have librdkafka's names or Java's ``sasl.jaas.config``.

    ``None`` for brokers without TLS and login. Raises :class:`ConfigError` for a file that cannot be read.
    """
    settings = with_login(properties)
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return None
    if protocol not in _WITHOUT_LOGIN or "sasl.username" not in settings:
        # A certificate, Kerberos or tokens: the probe's client knows Java's names of these.
        config = ClientConfig.from_kafka(properties, bootstrap_servers="unused:1")
        return replace(config, ssl=_tls(settings, config.ssl))
    rest = {**settings, "security.protocol": _WITHOUT_LOGIN[protocol]}
    config = ClientConfig.from_kafka(rest, bootstrap_servers="unused:1")
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "")
    login = SaslConfig(mechanism, settings["sasl.username"], settings.get("sasl.password", ""))
    return replace(config, security_protocol=protocol, sasl=login, ssl=_tls(settings, config.ssl))


def _tls(settings: Mapping[str, str], java: SslConfig) -> SslConfig:
    try:
        if "ssl.ca.location" in settings:
            java = replace(java, truststore_location=settings["ssl.ca.location"])
        if "ssl.certificate.location" in settings:
            chain = Path(settings["ssl.certificate.location"]).read_text(encoding="ascii")
            key = Path(settings.get("ssl.key.location", settings["ssl.certificate.location"]))
            java = replace(java, keystore_certificate_chain=chain, keystore_key=key.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"a certificate or a key cannot be read: {error}") from None
    return java
