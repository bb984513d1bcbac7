"""The page ``/metrics`` on a port of its own, served by threads, so that a slow scraper delays no client.

Answers to: the HTTP server of Prometheus's JMX exporter. Reactor shell: it sees no reactor, but is handed a way to call
on it.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from kafkalite.common.errors import StartupError
from kafkalite.metrics.page_security import PageSecurity

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
MOST_AT_ONCE: Final = 16
"""Connections that are served at a time; further ones are closed."""
TIMEOUT: Final = 10.0
"""Seconds for which a scraper may be silent."""
_TEXT: Final = "text/plain; charset=utf-8"
_CERTIFICATE: Final = "kafkalite.certificate"
_AUTHORIZATION: Final = "kafkalite.authorization"


class MetricsEndpoint:
    """The listener of ``host`` and ``port`` (0: a free one, which ``port`` then is), open until the process ends.

    It queues connections from the start, and answers them after :meth:`serve`, so that a reader who learns the address
    from the registration of the broker is never refused.

    Raises :class:`kafkalite.common.errors.StartupError` where the port cannot be had.
    """

    def __init__(self, host: str, port: int) -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise StartupError(
                f"metrics.listener: cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from None
        self.host: str = host
        self.port: int = self._server.server_port

    def serve(
        self,
        metrics: WSGIApplication,
        prepare: Callable[[], object],
        security: PageSecurity | None = None,
        pages: Mapping[str, WSGIApplication] | None = None,
    ) -> None:
        """Serve ``metrics``, and ``pages`` beside them by path. Call once.

        ``prepare`` is called before each scrape, in the thread that serves it. With ``security`` all pages are served
        over TLS to those who log in; without, to all.
        """
        if security is not None:
            self._server.tls = security.tls
        self._server.set_app(_application(metrics, prepare, security, pages or {}))
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        scheme = "https" if security else "http"
        log.info("metrics are served on %s://%s:%d%s", scheme, self.host, self.port, PATH)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_AT_ONCE

    tls: Callable[[], ssl.SSLContext] | None = None

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without asking DNS for the name of the host, as ``HTTPServer`` does: the answer may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, self.server_port = self.socket.getsockname()[:2]
        self.server_name = str(host)
        self.setup_environ()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Serve in a thread, if there are not too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """The thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Handshake and request, in the thread."""
        if self.tls is None or not isinstance(request, socket.socket):
            super().finish_request(request, client_address)
            return
        request.settimeout(TIMEOUT)
        with self.tls().wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """A scraper that goes away in the middle of an answer is no news."""
        log.debug("serving metrics to %s failed", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT

    def get_environ(self) -> WSGIEnvironment:
        """With the certificate of the client, in DER, if it has sent one, and with its login."""
        environ = super().get_environ()
        if isinstance(self.connection, ssl.SSLSocket):
            environ[_CERTIFICATE] = self.connection.getpeercert(binary_form=True)
            environ[_AUTHORIZATION] = self.headers.get("Authorization", "")
        return environ

    def log_message(self, format: str, *args: object) -> None:
        """A line for each scrape is for debugging only."""
        log.debug("%s: " + format, self.client_address[0], *args)


def _application(
    metrics: WSGIApplication,
    prepare: Callable[[], object],
    security: PageSecurity | None,
    pages: Mapping[str, WSGIApplication],
) -> WSGIApplication:
    """``metrics`` and ``pages`` under their paths, and nothing elsewhere; with ``security`` only to those who may."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if security is not None:
            host = environ["REMOTE_ADDR"]
            principal = security.principal(environ[_CERTIFICATE], environ[_AUTHORIZATION])
            if principal is None:
                log.info("metrics: a login from %s failed", host)
                time.sleep(security.failure_delay)
                headers = [("Content-Type", _TEXT), ("WWW-Authenticate", 'Basic realm="kafkalite", charset="UTF-8"')]
                start_response("401 Unauthorized", headers)
                return [b"Log in as a user of this broker.\n"]
            if not security.is_allowed(principal, host):
                log.info("metrics: %s from %s may not read them", principal, host)
                start_response("403 Forbidden", [("Content-Type", _TEXT)])
                return [f"{principal} needs the operation Describe on the cluster.\n".encode()]
        page = pages.get(environ.get("PATH_INFO", ""))
        if page is not None:
            return page(environ, start_response)
        if environ.get("PATH_INFO") != PATH:
            start_response("404 Not Found", [("Content-Type", _TEXT)])
            return [f"The metrics are at {PATH}.\n".encode()]
        prepare()
        return metrics(environ, start_response)

    return application
