"""TLS and the login of the page, for an address that other machines reach.

Answers to: what ``metrics.listener=https`` does for metrics, whose users and certificates these are like. Values: the
command makes them, because this room knows neither key stores nor users.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageLogin:
    """``tls`` is the server's context; ``names`` are the hosts of its certificate, which requests may name.

    ``is_user`` takes the client's certificate in DER (``None``: it sent none) and the header ``Authorization``
    (empty without one), and says whether they are those of a user.
    """

    tls: ssl.SSLContext
    names: tuple[str, ...]
    is_user: Callable[[bytes | None, str], bool]
