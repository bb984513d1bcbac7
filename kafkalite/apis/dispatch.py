"""Every request of a client comes here and leaves for its handler; every failure becomes Kafka's answer for it.

Answers to: ``kafka.server.KafkaApis.handle`` and ``RequestHandlerHelper.handleError``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import cast

from kafkalite.apis.api_versions import unsupported_version_answer
from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_counts import error_codes
from kafkalite.apis.error_responses import code_and_message, error_response
from kafkalite.apis.fetch import FetchApi
from kafkalite.apis.produce import ProduceApi
from kafkalite.apis.registry import served
from kafkalite.apis.services import BrokerServices
from kafkalite.apis.throttling import Throttling
from kafkalite.common.tasks import spawn
from kafkalite.network.request import Request
from kafkalite.protocol import messages
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
        self._quotas = services.quotas
        self._metrics = services.request_metrics
        self._monotonic = services.clock.monotonic
        self._throttling = Throttling(services.quotas, services.clock.monotonic)
        self._served = {int(key): api for key, api in served().items()}
        self.produce = ProduceApi(services, self._throttling)
        self.fetch = FetchApi(services, self._throttling)
        self._hot: dict[int, tuple[Callable[[Request], None], int]] = {
            int(ApiKey.PRODUCE): (self.produce.handle, self._served[ApiKey.PRODUCE].versions.max),
            int(ApiKey.FETCH): (self.fetch.handle, self._served[ApiKey.FETCH].versions.max),
        }

    def handle(self, request: Request) -> None:
        """Answer ``request``, now or later."""
        header = request.header
        try:
            if self._quotas.measures_time:
                request.began = self._monotonic()
            hot = self._hot.get(header.api_key)
            if hot is not None and 0 <= header.api_version <= hot[1]:
                hot[0](request)
            else:
                self._handle_cold(request)
            if request.began is not None:
                self._throttling.end(request)
        except ProtocolError as error:
            request.close_connection(str(error))
        except Exception:
            # Only the hot path and broken machinery come here; handlers' own failures are answered below.
            log.exception("Failed to handle %r", header)
            request.close_connection("the request could not be handled")

    def _handle_cold(self, request: Request) -> None:
        header = request.header
        api_key, version = header.api_key, header.api_version
        api = self._served.get(api_key)
        if api is None or version not in api.versions:
            if api_key == ApiKey.API_VERSIONS:
                request.respond([unsupported_version_answer()])
            else:
                request.close_connection(f"API key {api_key} in version {version} is not served")
            return
        message = decode_request(api_key, version, request.body)
        context = RequestContext(self._services, version, request.connection, header.client_id, api_key)
        try:
            outcome = api.handler(context, message)
        except ProtocolError:
            raise
        except Exception as error:
            self._answer_failure(request, message, error)
            return
        if isinstance(outcome, Awaitable):
            spawn(self._finish(request, message, outcome), "answering a request")
        else:
            self._answer(request, message, outcome)

    async def _finish(self, request: Request, message: messages.Message, outcome: Awaitable[object]) -> None:
        try:
            response = await outcome
        except ProtocolError as error:
            request.close_connection(str(error))
        except Exception as error:
            self._answer_failure(request, message, error)
        else:
            self._answer(request, message, response)

    def _answer(self, request: Request, message: messages.Message, response: object) -> None:
        header = request.header
        if self._quotas.is_active:
            response = self._throttling.answered(request, response)
        if isinstance(response, bytes):
            request.respond([response])
            return
        try:
            encoded = encode_response(header.api_key, header.api_version, response)
        except Exception as error:
            self._answer_failure(request, message, error)
        else:
            self._count_errors(request, response)
            request.respond([encoded])

    def _answer_failure(self, request: Request, message: messages.Message, error: Exception) -> None:
        header = request.header
        code, text = code_and_message(error, f"Handling of {header!r}", _UNEXPECTED)
        try:
            response: object = error_response(header.api_key, header.api_version, message, code, text)
            if self._quotas.is_active:
                response = self._throttling.answered(request, response, failed=True)
            self._count_errors(request, response)
            request.respond([encode_response(header.api_key, header.api_version, response)])
        except Exception:
            log.exception("No error response could be made for %r", header)
            request.close_connection("the request could not be answered")

    def _count_errors(self, request: Request, response: object) -> None:
        if self._metrics is not None:
            codes = list(error_codes(cast("messages.Message", response)))
            if codes:
                self._metrics.failed(request, codes)
