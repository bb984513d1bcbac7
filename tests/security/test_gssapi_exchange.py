"""Both sides of GSSAPI's exchange over contexts that follow a script, and what the authenticator makes of it."""

from __future__ import annotations

import pytest

from kafkalite.common.authentication import AuthenticationStep, SaslError, Verdict
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.gssapi_exchange import GSSAPI, GssapiSaslClient, GssapiSaslServer, GssError
from kafkalite.security.sasl_mechanism import SaslRetriableError
from kafkalite.security.sasl_server import SaslListener, SaslServerAuthenticator
from tests.security.test_sasl_server import api_versions, authenticate, handshake, read_authenticate

FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


class Context:
    """Gives ``tokens``, one a step, and is complete after the last; ``None`` is a step without a token."""

    def __init__(self, *tokens: bytes | None, initiator: str = "alice@REALM", error: GssError | None = None) -> None:
        self.tokens = list(tokens)
        self.initiator = initiator
        self.error = error
        self.taken: list[bytes | None] = []

    def step(self, token: bytes | None) -> bytes | None:
        self.taken.append(token)
        if self.error is not None:
            raise self.error
        return self.tokens.pop(0)

    def is_complete(self) -> bool:
        return not self.tokens

    def wrap(self, data: bytes) -> bytes:
        return b"wrapped " + data

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"wrapped "):
            raise GssError("a wrong signature")
        return token.removeprefix(b"wrapped ")


def short_name(principal: str) -> str:
    name, _, realm = principal.partition("@")
    if realm != "REALM":
        raise LookupError(f"No rules apply to {principal}")
    return name


def server(context: Context) -> GssapiSaslServer:
    return GssapiSaslServer(lambda: context, short_name)


@pytest.mark.parametrize("is_mutual", [True, False])
def test_client_and_server_agree_on_no_security_layer(is_mutual: bool) -> None:
    ours = server(Context(b"proof") if is_mutual else Context(None))
    client = GssapiSaslClient(lambda: Context(b"ticket", None) if is_mutual else Context(b"ticket"))
    tokens = []
    token = client.evaluate(None)
    while token is not None:
        tokens.append((token, ours.evaluate(token, 0)))
        token = client.evaluate(tokens[-1][1] or b"")
    offer, choice = b"wrapped \1\0\0\0", b"wrapped \1\0\0\0"
    mutual = [(b"ticket", b"proof"), (b"", offer)]
    assert tokens == [*(mutual if is_mutual else [(b"ticket", offer)]), (choice, None)]
    assert (ours.is_complete, ours.authorization_id, ours.is_token, ours.expires_at_ms) == (True, "alice", False, None)
    with pytest.raises(SaslError, match="after the end"):
        ours.evaluate(b"", 0)


def test_the_name_that_the_client_wants_is_ignored_as_in_kafka() -> None:
    ours = server(Context(None))
    ours.evaluate(b"ticket", 0)
    assert ours.evaluate(b"wrapped \1\0\0\0admin@REALM", 0) is None
    assert ours.authorization_id == "alice"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"wrapped \2\0\0\0", "a security layer"),
        (b"wrapped \0\0\0\0", "a security layer"),
        (b"wrapped \1\0\0", "a security layer"),
        (b"wrapped ", "a security layer"),
        (b"\1\0\0\0", "a wrong signature"),
    ],
)
def test_a_server_that_is_answered_with_something_else_refuses(answer: bytes, text: str) -> None:
    ours = server(Context(None))
    ours.evaluate(b"ticket", 0)
    with pytest.raises(SaslError, match=text):
        ours.evaluate(answer, 0)
    assert not ours.is_complete


def test_a_message_between_the_context_and_the_offer_is_refused() -> None:
    ours = server(Context(b"proof"))
    ours.evaluate(b"ticket", 0)
    with pytest.raises(SaslError, match="where none was expected"):
        ours.evaluate(b"x", 0)


def test_a_principal_without_a_name_is_refused() -> None:
    ours = server(Context(None, initiator="alice@OTHER"))
    ours.evaluate(b"ticket", 0)
    with pytest.raises(SaslError, match="No rules apply to alice@OTHER"):
        ours.evaluate(b"wrapped \1\0\0\0", 0)
    assert not ours.is_complete


@pytest.mark.parametrize("offer", [b"wrapped \6\0\0\0", b"wrapped \1\0\0", b"", b"\1\0\0\0"])
def test_a_client_refuses_a_server_that_demands_a_layer_or_cannot_prove_itself(offer: bytes) -> None:
    client = GssapiSaslClient(lambda: Context(b"ticket"))
    client.evaluate(None)
    with pytest.raises(SaslError):
        client.evaluate(offer)


def test_a_client_without_a_ticket_fails() -> None:
    with pytest.raises(SaslError, match="no such service"):
        GssapiSaslClient(lambda: Context(b"", error=GssError("no such service"))).evaluate(None)


@pytest.mark.parametrize(("is_retriable", "kind"), [(True, SaslRetriableError), (False, SaslError)])
def test_an_error_of_the_library_is_retriable_or_not(is_retriable: bool, kind: type[SaslError]) -> None:
    with pytest.raises(SaslError) as caught:
        server(Context(b"", error=GssError("replay", is_retriable=is_retriable))).evaluate(b"ticket", 0)
    assert type(caught.value) is kind


# With the authenticator


def authenticator(context: Context) -> SaslServerAuthenticator:
    listener = SaslListener({GSSAPI: lambda: server(context)}, {}, frozenset((GSSAPI,)), GSSAPI)
    return SaslServerAuthenticator(listener, api_versions)


def made(step: AuthenticationStep) -> AuthenticationStep:
    """The step that blocked."""
    assert step.verdict is Verdict.BLOCKED
    assert step.work is not None
    return step.work()


def test_steps_that_block_are_made_elsewhere() -> None:
    context = Context(None)
    client = authenticator(context)
    assert client.receive(handshake(GSSAPI), 0).verdict is Verdict.CONTINUE
    step = client.receive(authenticate(b"ticket"), 0)
    assert context.taken == []
    assert bytes(read_authenticate(made(step)).auth_bytes) == b"wrapped \1\0\0\0"
    last = made(client.receive(authenticate(b"wrapped \1\0\0\0"), 0))
    assert (last.verdict, bytes(read_authenticate(last).auth_bytes)) == (Verdict.COMPLETE, b"")
    assert client.principal == KafkaPrincipal.user("alice")


@pytest.mark.parametrize("is_retriable", [True, False])
def test_a_refused_ticket_is_answered_and_a_replay_only_closes(is_retriable: bool) -> None:
    client = authenticator(Context(b"", error=GssError("secret of the library", is_retriable=is_retriable)))
    client.receive(handshake(GSSAPI), 0)
    step = made(client.receive(authenticate(b"ticket"), 0))
    if is_retriable:
        assert (step.verdict, step.answer) == (Verdict.INVALID, None)
    else:
        assert step.verdict is Verdict.FAILED
        answer = read_authenticate(step)
        assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
    assert "secret of the library" in step.reason
    assert client.receive(authenticate(b"ticket"), 0).verdict is Verdict.INVALID


def test_a_client_of_kafka_0_9_begins_with_a_bare_token() -> None:
    client = authenticator(Context(b"proof"))
    first = made(client.receive(b"\x60ticket", 0))
    assert (first.verdict, first.answer) == (Verdict.CONTINUE, b"proof")
    assert made(client.receive(b"", 0)).answer == b"wrapped \1\0\0\0"
    last = made(client.receive(b"wrapped \1\0\0\0", 0))
    # No frame goes back, as Java's server gives no token at its end.
    assert (last.verdict, last.answer) == (Verdict.COMPLETE, None)
