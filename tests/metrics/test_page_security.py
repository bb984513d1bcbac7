"""Who a reader of the page is."""

from __future__ import annotations

import base64
import ssl

import pytest

from kafkalite.common.principals import KafkaPrincipal
from kafkalite.metrics.page_security import PageSecurity, basic_login


def of_certificate(certificate: bytes) -> KafkaPrincipal:
    if certificate == b"unmapped":
        raise LookupError("no rule applies")
    return KafkaPrincipal.user(certificate.decode())


SECURITY = PageSecurity(
    lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    of_certificate,
    lambda user, password: (user, password) == ("prometheus", "fire:brand"),
    lambda principal, host: True,  # noqa: ARG005
    0.0,
)


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


@pytest.mark.parametrize(
    ("header", "login"),
    [
        (basic("prometheus:fire:brand"), ("prometheus", "fire:brand")),
        (basic("jürgen:ß").replace("Basic", "bAsIc"), ("jürgen", "ß")),
        ("", None),
        ("Basic", None),
        ("Basic !", None),
        ("Basic " + base64.b64encode(b"\xff:x").decode(), None),
        ("Bearer abc", None),
        (basic("nothing"), None),
        (basic(":password"), None),
        (basic("user:"), None),
    ],
)
def test_the_header_of_a_basic_login(header: str, login: tuple[str, str] | None) -> None:
    assert basic_login(header) == login


@pytest.mark.parametrize(
    ("certificate", "header", "name"),
    [
        (None, basic("prometheus:fire:brand"), "prometheus"),
        (None, basic("prometheus:fire"), None),
        (None, "", None),
        (b"CN=scraper", "", "CN=scraper"),
        (b"CN=scraper", basic("prometheus:fire:brand"), "CN=scraper"),
        # A certificate that no rule maps is refused, also beside a right password.
        (b"unmapped", basic("prometheus:fire:brand"), None),
    ],
)
def test_a_certificate_counts_before_a_password(certificate: bytes | None, header: str, name: str | None) -> None:
    expected = None if name is None else KafkaPrincipal.user(name)
    assert SECURITY.principal(certificate, header) == expected
