"""Every request of a client comes here and leaves for its handler; every failure becomes Kafka's answer for it.

Answers to: ``kafka.server.KafkaApis.handle`` and ``RequestHandlerHelper.handleError``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.apis.api_versions import unsupported_version_answer
from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import error_response, refusal
from kafkalite.apis.fetch import FetchApi
from kafkalite.apis.produce import ProduceApi
from kafkalite.apis.registry import SERVED, Handler, load_handler
from kafkalite.apis.services import BrokerServices
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response
from kafkalite.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

_UNEXPECTED = "The server experienced an unexpected error when processing the request."


class Dispatcher:
    """The :class:`kafkalite.network.request.RequestHandler` of a broker.

    Produce and Fetch go straight to their own objects; every other request is decoded, handled, and encoded
    by the one path below. Bytes that are no request and versions that are not served close the connection.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._handlers: dict[int, Handler] = {}
        self.produce = ProduceApi(services)
        self.fetch = FetchApi(services)
        self._hot: dict[int, tuple[Callable[[Request], None], int]] = {
            int(ApiKey.PRODUCE): (self.produce.handle, SERVED[ApiKey.PRODUCE].max),
            int(ApiKey.FETCH): (self.fetch.handle, SERVED[ApiKey.FETCH].max),
        }

    def handle(self, request: Request) -> None:
        """Answer ``request``, now or later."""
        header = request.header
        try:
            hot = self._hot.get(header.api_key)
            if hot is not None and 0 <= header.api_version <= hot[1]:
                hot[0](request)
            else:
                self._handle_cold(request)
        except ProtocolError as error:
            request.close_connection(str(error))
        except Exception:
            # Only the hot path and broken machinery come here; handlers' own failures are answered below.
            log.exception("Failed to handle %r", header)
            request.close_connection("the request could not be handled")

    def _handle_cold(self, request: Request) -> None:
        header = request.header
        api_key, version = header.api_key, header.api_version
        served = SERVED.get(api_key)  # type: ignore[call-overload]
        if served is None or version not in served:
            if api_key == ApiKey.API_VERSIONS:
                request.respond([unsupported_version_answer()])
            else:
                request.close_connection(f"API key {api_key} in version {version} is not served")
            return
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = load_handler(api_key)
        message = decode_request(api_key, version, request.body)
        context = RequestContext(self._services, version, request.connection, header.client_id)
        try:
            outcome = handler(context, message)
        except Exception as error:
            _answer_failure(request, message, error)
            return
        if hasattr(outcome, "__await__"):
            spawn(_finish(request, message, outcome), "answering a request")
        else:
            _answer(request, message, outcome)


async def _finish(request: Request, message: Any, outcome: Awaitable[Any]) -> None:
    try:
        response = await outcome
    except Exception as error:
        _answer_failure(request, message, error)
    else:
        _answer(request, message, response)


def _answer(request: Request, message: Any, response: Any) -> None:
    header = request.header
    if not isinstance(response, bytes):
        try:
            response = encode_response(header.api_key, header.api_version, response)
        except Exception as error:
            _answer_failure(request, message, error)
            return
    request.respond([response])


def _answer_failure(request: Request, message: Any, error: Exception) -> None:
    header = request.header
    refused = refusal(error)
    if refused is not None:
        code, text = refused.code, refused.message or None
    else:
        log.error("Handling of %r failed", header, exc_info=error)
        code, text = ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED
    try:
        response = error_response(header.api_key, header.api_version, message, code, text)
        request.respond([encode_response(header.api_key, header.api_version, response)])
    except Exception:
        log.exception("No error response could be made for %r", header)
        request.close_connection("the request could not be answered")
