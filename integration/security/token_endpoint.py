"""An identity provider for tests: a token endpoint with a client, and the JWKS of its key."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT: Final = "broker"
SECRET: Final = "planted secret/+ of the broker 5d11"


class TokenEndpoint:
    """Gives tokens that live for ``life`` seconds, over HTTP on loopback; ``given`` counts them.

    ``failure``: answer the next requests for a token with this HTTP status, or, if it is 0, with nonsense.
    """

    def __init__(self, life: float) -> None:
        self.life = life
        self.given = 0
        self.failure: int | None = None
        self._key = rsa.generate_private_key(65537, 2048)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                public = RSAAlgorithm.to_jwk(endpoint._key.public_key(), as_dict=True)
                self.answer(200, {"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if endpoint.failure is not None:
                    self.answer(endpoint.failure or 200, {"error": "nonsense"})
                elif self.headers["Authorization"] != f"Basic {login}":
                    self.answer(401, {"error": "invalid_client"})
                elif form != {"grant_type": ["client_credentials"], "scope": ["a kafka/scope"]}:
                    self.answer(400, {"error": "invalid_request"})
                else:
                    self.answer(200, {"access_token": endpoint.token(), "expires_in": endpoint.life})

            def answer(self, code: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        """Of ``token`` or ``jwks``."""
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    def token(self) -> str:
        """A token for :data:`CLIENT`."""
        self.given += 1
        now = time.time()
        claims = {"sub": CLIENT, "aud": "kafka", "scope": "kafka", "iat": int(now), "exp": now + self.life}
        return jwt.encode(claims, self._key, "RS256", {"kid": "one"})
