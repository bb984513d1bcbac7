"""Fetches a token of OAUTHBEARER from a token endpoint. Blocks: it is called off the reactor.

Answers to: ``org.apache.kafka.common.security.oauthbearer.internals.secured.{HttpAccessTokenRetriever,
FileTokenRetriever}`` (KIP-768). Blocking shell.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlsplit

_MOST_BYTES: Final = 1 << 20
_SCHEMES: Final = ("https", "http", "file")
_FINAL_CODES: Final = frozenset((*range(400, 408), 409, 410, 411, 413, 414, 415, 501, 505))
"""Answers that another attempt would not change."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """How a token is asked for at a token endpoint: the grant of RFC 6749, section 4.4. Times in ms; 0: no limit.

    A ``url`` that begins with ``file:`` names a file with the token.
    """

    url: str = field(repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    subject_claim: str = "sub"
    timeout_ms: int = 10_000
    retry_ms: int = 100
    max_retry_ms: int = 10_000


class RefusedTokenError(Exception):
    """The endpoint gives no token, and would give none to another attempt. The text has no secret."""


def fetch_token(credentials: ClientCredentials) -> str:
    """A token for ``credentials``. Raises ``OSError`` and ``ValueError`` where another attempt may succeed, and
    :class:`RefusedTokenError`; their texts have no secret."""
    scheme = urlsplit(credentials.url).scheme
    if scheme not in _SCHEMES:
        raise RefusedTokenError(f"the URL of the token endpoint begins with none of {', '.join(_SCHEMES)}")
    request = urllib.request.Request(credentials.url)
    if scheme != "file":
        login = f"{credentials.client_id}:{credentials.client_secret}".encode()
        request.add_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
        request.add_header("Accept", "application/json")
        request.add_header("Cache-Control", "no-cache")
        scope = f"&scope={quote_plus(credentials.scope)}" if credentials.scope else ""
        request.data = f"grant_type=client_credentials{scope}".encode()
    try:
        with urllib.request.urlopen(request, timeout=credentials.timeout_ms / 1000 or None) as answer:
            data: bytes = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _FINAL_CODES:
            raise RefusedTokenError(f"the token endpoint answers {error.code} {error.reason}") from None
        raise OSError(f"the token endpoint answers {error.code} {error.reason}") from None
    if len(data) > _MOST_BYTES:
        raise ValueError(f"the answer is larger than {_MOST_BYTES} bytes")
    return data.decode() if scheme == "file" else _access_token(data)


def _access_token(data: bytes) -> str:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("the answer of the token endpoint is no JSON") from None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise ValueError("the answer of the token endpoint has no access_token")
    return token.strip()
