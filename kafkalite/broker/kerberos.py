"""Kerberos tickets and keytabs of this broker, by the library of GSSAPI that the system has.

Answers to: ``org.apache.kafka.common.security.kerberos.KerberosLogin`` and
``com.sun.security.auth.module.Krb5LoginModule``. Blocking shell; the only module that imports gssapi.

The library fetches tickets, and new ones when half of their life is over. It reads the file that the environment
variable ``KRB5_CONFIG`` names, or ``/etc/krb5.conf``.
"""

from __future__ import annotations

try:
    import gssapi
except ImportError:
    raise ImportError("the package gssapi is missing; install kafkalite[gssapi]") from None

from kafkalite.security.gssapi_exchange import GssError

_RETRIABLE = frozenset(-1765328384 + code & 0xFFFFFFFF for code in (21, 33, 34))
"""Client not yet valid, ticket not yet valid, request is a replay: what Kafka's ``KerberosError`` calls retriable."""


class Keytab:
    """The keys of ``principal`` in the file ``path``; its tickets are in memory."""

    def __init__(self, path: str, principal: str) -> None:
        self._principal = principal
        self._accept = {"keytab": f"FILE:{path}"}
        self.tickets = f"MEMORY:kafkalite-{principal}"
        """Where this process has the tickets of the principal, as libkrb5 names it."""
        self._initiate = {"client_keytab": f"FILE:{path}", "ccache": self.tickets}

    def check(self) -> None:
        """Raises :class:`GssError` if the file has no key of the principal."""
        self._credentials("accept")

    def log_in(self) -> None:
        """Fetch a ticket, unless there is a good one. Raises :class:`GssError`."""
        self._credentials("initiate")

    def acceptor(self) -> KerberosContext:
        """The server's side of a new context. Raises :class:`GssError`."""
        return KerberosContext(usage="accept", creds=self._credentials("accept"))

    def initiator(self, service: str, host: str) -> KerberosContext:
        """The client's side of a new context with ``service`` on ``host``. Raises :class:`GssError`."""
        try:
            name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None
        return KerberosContext(
            usage="initiate", creds=self._credentials("initiate"), name=name, mech=gssapi.MechType.kerberos
        )

    def _credentials(self, usage: str) -> gssapi.Credentials:
        store = self._accept if usage == "accept" else self._initiate
        try:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
            # Of Kerberos only, because the library would else negotiate about the mechanism (SPNEGO).
            return gssapi.Credentials(name=name, usage=usage, store=store, mechs=[gssapi.MechType.kerberos])
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None


class KerberosContext:
    """A :class:`kafkalite.security.gssapi_exchange.GssContext`."""

    def __init__(self, **arguments: object) -> None:
        try:
            self._context = gssapi.SecurityContext(**arguments)
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None
        # An error is raised where it occurs, and its token is not sent, as in Java.
        self._context.__DEFER_STEP_ERRORS__ = False

    def step(self, token: bytes | None) -> bytes | None:
        """See :class:`kafkalite.security.gssapi_exchange.GssContext`."""
        try:
            made: bytes | None = self._context.step(token)
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None
        return made

    def is_complete(self) -> bool:
        """Whether the context is established."""
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """The principal of the client."""
        return str(self._context.initiator_name)

    def wrap(self, data: bytes) -> bytes:
        """See :class:`kafkalite.security.gssapi_exchange.GssContext`."""
        try:
            return bytes(self._context.wrap(data, False).message)
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None

    def unwrap(self, token: bytes) -> bytes:
        """See :class:`kafkalite.security.gssapi_exchange.GssContext`."""
        try:
            return bytes(self._context.unwrap(token).message)
        except gssapi.exceptions.GSSError as error:
            raise _error(error) from None


def default_realm() -> str:
    """The realm of names without one, empty if the system names none."""
    try:
        name = gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


def _error(error: gssapi.exceptions.GSSError) -> GssError:
    return GssError(" ".join(str(error).split()), is_retriable=error.min_code & 0xFFFFFFFF in _RETRIABLE)
