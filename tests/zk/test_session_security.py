"""Securing a connection to ZooKeeper: DIGEST-MD5 against the RFC's example, packets, and values for another process."""

from __future__ import annotations

import struct

import pytest

from kafkalite.zk.session_security import (
    OPEN,
    DigestMd5,
    LoginRefusedError,
    ZkSecurity,
    ZkTls,
    digest_request,
    log_in,
    tls_context,
)

# RFC 2831, chapter 4.
CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
)  # fmt: skip
RSPAUTH = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def rfc_exchange() -> DigestMd5:
    return DigestMd5("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")


def test_the_response_is_that_of_the_rfc() -> None:
    response = rfc_exchange().respond(CHALLENGE)
    assert response.endswith(b"response=d388dad90d4bbd760a152321f2143af7,qop=auth")
    assert response.startswith(b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",')


def test_the_servers_proof_is_checked() -> None:
    exchange = rfc_exchange()
    exchange.respond(CHALLENGE)
    exchange.check(RSPAUTH)
    for wrong in (b"", b"rspauth=", b"rspauth=" + b"0" * 32, b"ok"):
        with pytest.raises(LoginRefusedError, match="did not prove"):
            exchange.check(wrong)


def test_a_proof_before_the_response_is_none() -> None:
    with pytest.raises(LoginRefusedError):
        rfc_exchange().check(b"rspauth=")


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\x00\xff", b'realm="r"', b'nonce="n",algorithm=md5', b'nonce="n",qop="auth-int,auth-conf"', b'nonce="n'],
)
def test_other_challenges_are_refused(challenge: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        DigestMd5("u", "p").respond(challenge)


def test_names_and_passwords_are_quoted() -> None:
    response = DigestMd5('a"b\\c', "p").respond(b'nonce="n\\"1",realm="r"')
    assert b'username="a\\"b\\\\c"' in response and b'nonce="n\\"1"' in response


def answer(xid: int, token: bytes, error: int = 0) -> bytes:
    return struct.pack(f">iqii{len(token)}s", xid, 0, error, len(token), token)


def test_a_login_is_two_requests() -> None:
    sent: list[bytes] = []
    answers = [answer(1, CHALLENGE), answer(2, b"rspauth=" + b"0" * 32)]
    with pytest.raises(LoginRefusedError, match="did not prove"):
        log_in(("chris", "secret"), sent.append, lambda: answers.pop(0))
    assert sent[0] == struct.pack(">iiii", 12, 1, 102, 0)
    assert struct.unpack_from(">iii", sent[1])[1:] == (2, 102) and b"secret" not in sent[1]


def test_a_refused_login_says_why_without_the_password() -> None:
    for error, said in ((-115, "user or password is wrong"), (-124, "user or password is wrong"), (-4, "error -4")):
        with pytest.raises(LoginRefusedError, match=said) as caught:
            log_in(("chris", "hush"), lambda _: None, lambda code=error: answer(1, b"", code))  # type: ignore[misc]
        assert "hush" not in str(caught.value)


def test_the_packet_of_the_digest_scheme() -> None:
    assert digest_request("u:p") == struct.pack(">iiiii6si3s", 29, -4, 100, 0, 6, b"digest", 3, b"u:p")


def test_security_passes_to_another_process() -> None:
    tls = ZkTls(b"key", b"trust", ("TLSv1.2",), "ECDHE", False)
    for security in (OPEN, ZkSecurity(tls, "u:p", ("u", "p")), ZkSecurity(ZkTls())):
        assert ZkSecurity.decode(security.encode()) == security


def test_no_secret_is_shown() -> None:
    shown = repr(ZkSecurity(ZkTls(b"hush-key"), "u:hush-digest", ("u", "hush-sasl")))
    assert "hush" not in shown


def test_a_context_has_the_versions_and_checks_that_were_asked_for() -> None:
    context = tls_context(ZkTls(protocols=("TLSv1.3", "TLSv1.2"), checks_host_names=False))
    assert (context.minimum_version.name, context.maximum_version.name) == ("TLSv1_2", "TLSv1_3")
    assert not context.check_hostname and context.verify_mode.name == "CERT_REQUIRED"
    assert tls_context(ZkTls()).check_hostname
