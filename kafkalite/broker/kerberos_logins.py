"""Makes both sides of GSSAPI from the settings of a listener.

Answers to: ``org.apache.kafka.common.network.SaslChannelBuilder``, its Kerberos part. Blocking shell.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from kafkalite.broker.kerberos_settings import KerberosSettings
from kafkalite.common.errors import StartupError
from kafkalite.security.gssapi_exchange import GssapiSaslClient, GssapiSaslServer, GssContext, GssError
from kafkalite.security.kerberos_names import KerberosShortNamer
from kafkalite.security.sasl_mechanism import MechanismFactory


class _Keys(Protocol):
    """See :class:`kafkalite.broker.kerberos.Keytab`."""

    @property
    def tickets(self) -> str: ...

    def check(self) -> None: ...

    def log_in(self) -> None: ...

    def acceptor(self) -> GssContext: ...

    def initiator(self, service: str, host: str) -> GssContext: ...


def kerberos_mechanism(settings: KerberosSettings) -> MechanismFactory:
    """The server's side for clients that show tickets for ``settings.principal``.

    Raises :class:`StartupError` if gssapi is not installed, or if the keytab lacks the keys.
    """
    keys, realm = _keys(settings.keytab, settings.principal)
    try:
        keys.check()
    except GssError as error:
        raise _startup_error(settings.keytab, settings.principal, error) from None
    namer = KerberosShortNamer(settings.rules, realm)
    return partial(GssapiSaslServer, keys.acceptor, namer.short_name)


class KerberosLogin:
    """How a broker logs in to others, as ``settings`` say. Raises :class:`StartupError` if gssapi is not installed."""

    def __init__(self, settings: KerberosSettings) -> None:
        self._settings = settings
        self._keys, _ = _keys(settings.keytab, settings.principal)

    def start(self) -> None:
        """Fetch a ticket. Blocks. Raises :class:`StartupError`."""
        take_ticket(self._settings.keytab, self._settings.principal)

    def client(self, host: str) -> GssapiSaslClient:
        """Begins an exchange with the broker on ``host``; its steps block."""
        return GssapiSaslClient(partial(self._keys.initiator, self._settings.service, host))


def take_ticket(keytab: str, principal: str) -> str:
    """Fetch a ticket, and return where libkrb5 has it, as ``KRB5CCNAME`` names it.

    Blocks. Raises :class:`StartupError`.
    """
    keys, _ = _keys(keytab, principal)
    try:
        # First, because libkrb5 says of a keytab that it cannot read only that there are no tickets.
        keys.check()
        keys.log_in()
    except GssError as error:
        raise _startup_error(keytab, principal, error) from None
    return keys.tickets


def _keys(keytab: str, principal: str) -> tuple[_Keys, str]:
    """The keys of ``principal``, and the default realm."""
    try:
        # Here, because gssapi is an extra.
        from kafkalite.broker.kerberos import Keytab, default_realm
    except ImportError as error:
        raise StartupError(f"SASL mechanism GSSAPI: {error}") from None
    return Keytab(keytab, principal), default_realm()


def _startup_error(keytab: str, principal: str, error: GssError) -> StartupError:
    return StartupError(f"SASL mechanism GSSAPI: no login as {principal} with the keytab {keytab}: {error}")
