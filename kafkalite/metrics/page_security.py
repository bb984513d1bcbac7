"""Who may read the page: by a certificate, or by a user and a password.

Answers to: nothing in Kafka; the web configuration of Prometheus's exporters has the same two ways. Deterministic.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from kafkalite.common.principals import KafkaPrincipal


@dataclass(frozen=True, slots=True)
class PageSecurity:
    """The security of a page that is served over TLS. All calls are made in the threads that serve the page.

    ``tls`` gives the context for the next connection. ``of_certificate`` makes the principal of a certificate in DER,
    and raises :class:`LookupError` or :class:`ValueError` if it is refused. ``is_allowed`` takes a principal and the
    address of its host. A failed login is answered after ``failure_delay`` seconds.
    """

    tls: Callable[[], ssl.SSLContext]
    of_certificate: Callable[[bytes], KafkaPrincipal]
    check_password: Callable[[str, str], bool]
    is_allowed: Callable[[KafkaPrincipal, str], bool]
    failure_delay: float

    def principal(self, certificate: bytes | None, authorization: str) -> KafkaPrincipal | None:
        """Who the client is, ``None`` if it is not logged in; ``authorization`` is the header of the request.

        A certificate counts before a password.
        """
        if certificate is not None:
            try:
                return self.of_certificate(certificate)
            except (LookupError, ValueError):
                return None
        login = basic_login(authorization)
        return KafkaPrincipal.user(login[0]) if login is not None and self.check_password(*login) else None


def basic_login(authorization: str) -> tuple[str, str] | None:
    """User and password of ``Basic …`` (RFC 7617, in UTF-8); ``None`` for anything else, and without one of both."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if user and colon and password else None
