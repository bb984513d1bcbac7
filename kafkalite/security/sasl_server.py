"""The authentication of one connection: frames in, answers and a verdict out.

Answers to: ``org.apache.kafka.common.security.authenticator.SaslServerAuthenticator`` and the sessions of
``org.apache.kafka.common.network.KafkaChannel`` (KIP-43, KIP-152, KIP-368). Pure.

Before a client is authenticated only ApiVersions and SaslHandshake are decoded. After SaslHandshake 0 the frames are
the mechanism's tokens, after SaslHandshake 1 they are SaslAuthenticate requests. A frame that has no place here closes
the connection without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

from kafkalite.common.authentication import AuthenticationStep, SaslError, Verdict
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import RequestHeader, parse_request_header, response_header
from kafkalite.security.sasl_mechanism import (
    MechanismFactory,
    SaslAuthenticationError,
    SaslMechanism,
    SaslRetriableError,
)

_HANDSHAKE_VERSIONS: Final = range(2)
_AUTHENTICATE_VERSIONS: Final = range(3)
_TOKEN_TAG: Final = b"\x60"
"""The first byte of GSSAPI's first token. No API key begins so."""
_REAUTHENTICATION_PAUSE_MS: Final = 1000
"""A client may re-authenticate once a second; more often is refused like a handshake out of place."""

ApiVersionsAnswer = Callable[[int, memoryview], tuple[bytes, bool]]
"""Takes the version and the body of an ApiVersions request; returns the body of the answer, and whether it is no error.

After an error (an unknown version, a malformed name of the client's software) the client may ask again. Raises
:class:`kafkalite.protocol.errors.ProtocolError` for a body that cannot be decoded.
"""


class _State(Enum):
    INITIAL_REQUEST = auto()
    HANDSHAKE_OR_VERSIONS_REQUEST = auto()
    HANDSHAKE_REQUEST = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    FAILED = auto()
    REAUTH_PROCESS_HANDSHAKE = auto()
    REAUTH_BAD_MECHANISM = auto()


@dataclass(frozen=True, slots=True)
class SaslListener:
    """What the connections of a listener have in common.

    ``mechanisms`` are those of ``sasl.enabled.mechanisms`` by name, ``max_reauth_ms`` is ``connections.max.reauth.ms``
    of each (0: sessions do not end). The exchanges of ``blocking`` may block, so that they are made off the reactor.
    ``bare``, if it is not empty, is the mechanism of clients that begin with a token and without a handshake.
    """

    mechanisms: Mapping[str, MechanismFactory]
    max_reauth_ms: Mapping[str, int]
    blocking: frozenset[str] = frozenset()
    bare: str = ""


class _RefusedError(Exception):
    """The frame ends the connection; the verdict, an answer and a reason."""

    def __init__(self, step: AuthenticationStep) -> None:
        super().__init__(step.reason)
        self.step = step


class SaslServerAuthenticator:
    """One connection, from its first frame to its end.

    ``principal`` is who the client is once the verdict was ``COMPLETE``. ``session_expires_at_ms`` is when the session
    ends, on the clock of ``now_ms``; ``None`` where it does not.
    """

    def __init__(self, listener: SaslListener, api_versions: ApiVersionsAnswer) -> None:
        self._listener = listener
        self._api_versions = api_versions
        self._state = _State.INITIAL_REQUEST
        self._server: SaslMechanism | None = None
        self._mechanism = ""
        self._requested = ""
        self._has_headers = False
        self._is_reauthentication = False
        self._last_reauthentication_ms: int | None = None
        self.principal: KafkaPrincipal | None = None
        self.session_expires_at_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self._state is _State.COMPLETE

    def is_expired(self, now_ms: int) -> bool:
        """Whether the session is over: a request other than SaslHandshake then closes the connection."""
        return self.session_expires_at_ms is not None and now_ms > self.session_expires_at_ms

    def begin_reauthentication(self, now_ms: int) -> bool:
        """Whether the SaslHandshake of an authenticated client begins a new exchange.

        If so, give its frame and the following ones to :meth:`receive` until the verdict. If not, the request is out of
        place (ILLEGAL_SASL_STATE).
        """
        if not self.is_complete or self.session_expires_at_ms is None:
            return False
        last = self._last_reauthentication_ms
        if last is not None and now_ms - last < _REAUTHENTICATION_PAUSE_MS:
            return False
        self._last_reauthentication_ms = now_ms
        self._is_reauthentication = True
        self._has_headers = False
        self._server = None
        self._state = _State.REAUTH_PROCESS_HANDSHAKE
        return True

    def receive(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:
        """The step that ``frame`` (without its length) leads to; ``now_ms`` is the time of day."""
        if self._state is _State.INITIAL_REQUEST and self._listener.bare and bytes(frame[:1]) == _TOKEN_TAG:
            self._begin(self._listener.bare)
        if self._state is _State.AUTHENTICATE and self._mechanism in self._listener.blocking:
            return AuthenticationStep(Verdict.BLOCKED, work=partial(self._take, bytes(frame), now_ms))
        return self._take(frame, now_ms)

    def _take(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:
        try:
            if self._state is _State.AUTHENTICATE:
                return self._take_token(frame, now_ms)
            if self._state is _State.REAUTH_BAD_MECHANISM:
                raise _failed(
                    f"SASL mechanism '{self._requested}' requested by client is not supported for re-authentication "
                    f"of mechanism '{self._mechanism}'"
                )
            if self._state in (_State.COMPLETE, _State.FAILED):
                raise _invalid("a frame after the end of the authentication")
            return self._take_request(memoryview(frame))
        except _RefusedError as refused:
            self._state = _State.FAILED
            return refused.step
        except ProtocolError as error:
            hint = (
                "; the client may use another security protocol, or be no Kafka client"
                if self._state is _State.INITIAL_REQUEST
                else ""
            )
            self._state = _State.FAILED
            return AuthenticationStep(Verdict.INVALID, reason=f"{error}{hint}")

    def _take_request(self, frame: memoryview) -> AuthenticationStep:
        header, body_at = parse_request_header(frame)
        body = frame[body_at:]
        if header.api_key == ApiKey.API_VERSIONS:
            return self._take_api_versions(header, body)
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            raise ProtocolError(f"Unexpected Kafka request of type {header.api_key} during SASL handshake")
        return self._take_handshake(header, body)

    def _take_api_versions(self, header: RequestHeader, body: memoryview) -> AuthenticationStep:
        if self._state not in (_State.INITIAL_REQUEST, _State.HANDSHAKE_OR_VERSIONS_REQUEST):
            raise _invalid(f"Unexpected ApiVersions request during SASL authentication state {self._state.name}")
        answer, is_accepted = self._api_versions(header.api_version, body)
        self._state = _State.HANDSHAKE_REQUEST if is_accepted else _State.HANDSHAKE_OR_VERSIONS_REQUEST
        return AuthenticationStep(Verdict.CONTINUE, response_header(header) + answer)

    def _take_handshake(self, header: RequestHeader, body: memoryview) -> AuthenticationStep:
        version = header.api_version
        if version not in _HANDSHAKE_VERSIONS:
            raise ProtocolError(f"SaslHandshake in version {version} is not served")
        request = decode_request(ApiKey.SASL_HANDSHAKE, version, body)
        assert isinstance(request, messages.SaslHandshakeRequest)
        self._requested = request.mechanism
        factory = self._listener.mechanisms.get(self._requested)
        error = ErrorCode.UNSUPPORTED_SASL_MECHANISM if factory is None else ErrorCode.NONE
        response = messages.SaslHandshakeResponse(
            version=version, error_code=error, mechanisms=list(self._listener.mechanisms)
        )
        answer = response_header(header) + encode_response(ApiKey.SASL_HANDSHAKE, version, response)
        if factory is None:
            raise _failed("Unsupported SASL mechanism", answer)
        self._has_headers = version >= 1
        if self._is_reauthentication and self._requested != self._mechanism:
            # As in Kafka, the failure is told at the next frame, because only then it counts as a failed one.
            self._state = _State.REAUTH_BAD_MECHANISM
        else:
            self._begin(self._requested)
        return AuthenticationStep(Verdict.CONTINUE, answer)

    def _begin(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._server = self._listener.mechanisms[mechanism]()
        self._state = _State.AUTHENTICATE

    def _take_token(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:
        server = self._server
        assert server is not None
        if self._has_headers:
            return self._take_sasl_authenticate(memoryview(frame), server, now_ms)
        try:
            challenge = server.evaluate(bytes(frame), now_ms)
        except SaslAuthenticationError as error:
            raise _failed(str(error)) from None
        except SaslRetriableError as error:
            raise _invalid(str(error)) from None
        except SaslError as error:
            raise _failed(self._invalid_credentials(), detail=str(error)) from None
        if not server.is_complete:
            return AuthenticationStep(Verdict.CONTINUE, challenge)
        self._become(server)
        self._start_session(server, now_ms)
        return AuthenticationStep(Verdict.COMPLETE, challenge)

    def _take_sasl_authenticate(self, frame: memoryview, server: SaslMechanism, now_ms: int) -> AuthenticationStep:
        header, body_at = parse_request_header(frame)
        version = header.api_version
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            # Kafka decodes the request to refuse it; a stranger's request is not decoded here.
            raise _failed(f"Unexpected Kafka request of type {header.api_key} during SASL authentication")
        if version not in _AUTHENTICATE_VERSIONS:
            raise ProtocolError(f"SaslAuthenticate in version {version} is not served")
        request = decode_request(ApiKey.SASL_AUTHENTICATE, version, frame[body_at:])
        assert isinstance(request, messages.SaslAuthenticateRequest)
        try:
            challenge = server.evaluate(bytes(request.auth_bytes), now_ms)
            if server.is_complete:
                self._become(server)
        except SaslAuthenticationError as error:
            text = str(error)
            raise _failed(text, _authenticate_answer(header, text)) from None
        except SaslRetriableError as error:
            raise _invalid(str(error)) from None
        except SaslError as error:
            # The client is not told the error, because that may say whether the user exists.
            text = self._invalid_credentials()
            raise _failed(text, _authenticate_answer(header, text), detail=str(error)) from None
        lifetime_ms = self._start_session(server, now_ms) if server.is_complete else 0
        verdict = Verdict.COMPLETE if server.is_complete else Verdict.CONTINUE
        return AuthenticationStep(verdict, _authenticate_answer(header, None, challenge or b"", lifetime_ms))

    def _become(self, server: SaslMechanism) -> None:
        """Take the principal of a complete exchange, which re-authentication must not change."""
        principal = KafkaPrincipal("User", server.authorization_id, server.is_token)
        before = self.principal
        if self._is_reauthentication and before is not None and before != principal:
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{principal.type}.{principal.name}"
            )
        self.principal = principal

    def _start_session(self, server: SaslMechanism, now_ms: int) -> int:
        """Begin the session of the authenticated client; its length in ms, 0 for one without an end."""
        self._state = _State.COMPLETE
        limits = [] if server.expires_at_ms is None else [server.expires_at_ms - now_ms]
        max_reauth_ms = self._listener.max_reauth_ms.get(self._mechanism, 0)
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        self.session_expires_at_ms = None
        if not limits:
            return 0
        lifetime_ms = max(0, min(limits))
        self.session_expires_at_ms = now_ms + lifetime_ms
        return lifetime_ms

    def _invalid_credentials(self) -> str:
        what = "re-authentication" if self._is_reauthentication else "authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"


def _failed(reason: str, answer: bytes | None = None, detail: str = "") -> _RefusedError:
    return _RefusedError(AuthenticationStep(Verdict.FAILED, answer, f"{reason} ({detail})" if detail else reason))


def _invalid(reason: str) -> _RefusedError:
    return _RefusedError(AuthenticationStep(Verdict.INVALID, reason=reason))


def _authenticate_answer(
    header: RequestHeader, error: str | None, challenge: bytes = b"", lifetime_ms: int = 0
) -> bytes:
    response = messages.SaslAuthenticateResponse(
        version=header.api_version,
        error_code=ErrorCode.NONE if error is None else ErrorCode.SASL_AUTHENTICATION_FAILED,
        # Without an error Kafka sends an empty text.
        error_message=error or "",
        auth_bytes=challenge,
        session_lifetime_ms=lifetime_ms,
    )
    return response_header(header) + encode_response(ApiKey.SASL_AUTHENTICATE, header.api_version, response)
