"""Delegation tokens as values and as znodes: ``/delegation_token/tokens/<id>``.

Answers to: ``org.apache.kafka.common.security.token.delegation.TokenInformation`` and the JSON of
``kafka.server.DelegationTokenManager`` (KIP-48, KIP-373). Pure.

The secret of a token is not stored: it is the HMAC of its id under ``delegation.token.secret.key``.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass

from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.sanitizer import desanitize, sanitize
from kafkalite.zk.znodes.codec import JsonObject, MalformedZnodeError, from_json, to_json

_VERSIONS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token of ``owner``, made by ``requester``; times of day in ms."""

    id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """Whether ``principal`` may see the token without an ACL: its owner, its requester and its renewers."""
        return principal == self.requester or self.may_renew(principal)

    def may_renew(self, principal: KafkaPrincipal) -> bool:
        """Whether ``principal`` may change the end of the token: its owner and its renewers, not its requester."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token has ended."""
        return self.max_ms < now_ms or self.expires_ms < now_ms


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret part of a token, which its client shows in base64 as a password."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The password of a token."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()


def encode_token(token: DelegationToken) -> bytes:
    """The content of the token's znode."""
    return to_json(
        {
            "version": 3,
            "owner": sanitize(str(token.owner)),
            "tokenRequester": sanitize(str(token.requester)),
            "renewers": [sanitize(str(each)) for each in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.id,
        }
    )


def decode_token(path: str, data: bytes) -> DelegationToken:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, path)
    if value.get("version") not in _VERSIONS:
        raise MalformedZnodeError(f"{path}: version {value.get('version')!r} is none of {_VERSIONS}")
    renewers = value.get("renewers")
    if not isinstance(renewers, list):
        raise MalformedZnodeError(f"{path}: renewers: not a list")
    owner = _principal(path, value.get("owner"))
    # Before version 3 tokens were made by their owners.
    requester = _principal(path, value["tokenRequester"]) if "tokenRequester" in value else owner
    token_id = value.get("tokenId")
    if not isinstance(token_id, str) or not token_id:
        raise MalformedZnodeError(f"{path}: tokenId: not a text")
    return DelegationToken(
        token_id,
        owner,
        requester,
        tuple(_principal(path, each) for each in renewers),
        _time(path, value, "issueTimestamp"),
        _time(path, value, "maxTimestamp"),
        _time(path, value, "expiryTimestamp"),
    )


def _principal(path: str, text: object) -> KafkaPrincipal:
    if not isinstance(text, str):
        raise MalformedZnodeError(f"{path}: not a principal: {text!r}")
    try:
        return KafkaPrincipal.parse(desanitize(text))
    except ValueError as error:
        raise MalformedZnodeError(f"{path}: {error}") from None


def _time(path: str, value: JsonObject, name: str) -> int:
    time = value.get(name)
    if not isinstance(time, int):
        raise MalformedZnodeError(f"{path}: {name}: not a number: {time!r}")
    return time
