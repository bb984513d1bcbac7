"""The security of ``kafkalite dashboard``: how it logs in at brokers, and how users log in at its page.

Answers to: nothing in Kafka. Blocking: files; and one function that fetches over HTTP.
"""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kafkalite.broker.properties import load_properties
from kafkalite.broker.tls_keys import TLS_CONFIGS
from kafkalite.cli.clients import read_properties, with_login
from kafkalite.cli.event_pages import page_access
from kafkalite.common.authentication import SaslClient
from kafkalite.common.errors import ConfigError
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.dashboard.page_login import PageLogin
from kafkalite.dashboard.process import BrokerAccess
from kafkalite.metrics.page_security import PageSecurity
from kafkalite.network.endpoint_security import ClientSecurity
from kafkalite.security.jaas import JaasConfig
from kafkalite.security.plain import PLAIN, PlainUsers
from kafkalite.security.sasl_client import PlainSaslClient, ScramSaslClient
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS
from kafkalite.security.tls import ListenerTls, alternative_names

_FETCH_TIMEOUT: Final = 5.0
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_USERS: Final = "plain.sasl.jaas.config"


def broker_access(file: Path | None) -> BrokerAccess:
    """How the client properties in ``file`` say that brokers and their pages are reached.

    Raises :class:`ConfigError` for a protocol or a mechanism that the dashboard does not speak.
    """
    properties = with_login(read_properties(file))
    protocol = properties.get("security.protocol", _PROTOCOLS[0]).upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"{file}: security.protocol={protocol}: it is one of {', '.join(_PROTOCOLS)}")
    try:
        pages = page_access(properties)
    except OSError as error:
        raise ConfigError(f"{file}: a certificate or a key cannot be read: {error}") from None
    tls = pages.tls if protocol.endswith("SSL") else None
    sasl = _sasl(properties, file) if protocol.startswith("SASL") else None
    # Without the proxies of the environment, because brokers are asked directly by every other request, too.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=pages.tls)
    )

    def fetch(address: str) -> bytes:
        # The login is for pages behind TLS only: elsewhere it would be sent in clear.
        headers = dict(pages.headers) if address.startswith("https://") else {}
        with opener.open(urllib.request.Request(address, headers=headers), timeout=_FETCH_TIMEOUT) as response:
            content: bytes = response.read()
        return content

    return BrokerAccess(fetch, protocol, ClientSecurity(tls, sasl))


def _sasl(properties: Mapping[str, str], file: Path | None) -> Callable[[], SaslClient]:
    """Begins a login. Raises :class:`ConfigError` for other mechanisms than PLAIN and SCRAM, and without a user."""
    mechanism = properties.get("sasl.mechanism", "")
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if mechanism not in (PLAIN, *SCRAM_MECHANISMS) or not user:
        known = ", ".join((PLAIN, *SCRAM_MECHANISMS))
        raise ConfigError(f"{file}: the dashboard logs in by sasl.mechanism {known}, with a user and a password")
    if mechanism == PLAIN:
        return lambda: PlainSaslClient(user, password)
    rng = random.SystemRandom()
    return lambda: ScramSaslClient(SCRAM_MECHANISMS[mechanism], user, password, rng)


def page_login(file: Path) -> PageLogin:
    """TLS and users of the page as ``file`` has them: ``ssl.*`` as a listener has it, users of ``PlainLoginModule``.

    Raises :class:`ConfigError`, also where no user could log in.
    """
    try:
        texts = load_properties(file)
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}") from None
    values = TLS_CONFIGS.defaults() | TLS_CONFIGS.parse(texts)
    client_auth = str(values["ssl.client.auth"])
    listener = ListenerTls(
        values, lambda path: Path(path).read_bytes(), f"--listen-config {file}", client_auth, between_brokers=False
    )
    try:
        users = JaasConfig.parse(texts[_USERS]).options if _USERS in texts else {}
    except ValueError as error:
        raise ConfigError(f"{file}: {_USERS}: {error}") from None
    if client_auth != "required" and not any(name.startswith(PlainUsers.PREFIX) for name in users):
        raise ConfigError(
            f"--listen-config {file}: no user could log in: set {_USERS} to the PlainLoginModule with "
            'user_NAME="PASSWORD", or ssl.client.auth=required with a trust store'
        )
    # Every certificate that the trust store trusts is a user; OpenSSL has checked it.
    security = PageSecurity(
        lambda: listener.server,
        lambda _: KafkaPrincipal.user("certificate"),
        PlainUsers(users).check,
        lambda *_: True,
        0.0,
    )
    assert listener.stores.key is not None, "a server's context needs a key"
    names = tuple(sorted(name.partition(":")[2] for name in alternative_names(listener.stores.key.chain[0])))
    return PageLogin(listener.server, names, lambda *shown: security.principal(*shown) is not None)
