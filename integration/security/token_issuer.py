"""A party that signs tokens for OAUTHBEARER; clients get them by a call, Java's by HTTP."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

AUDIENCE = "kafka"


class TokenIssuer:
    """Its tokens are those of ``user`` and end after ``lifetime`` seconds. ``key_set`` is written as JSON.

    Close it at the end.
    """

    def __init__(self, key_set: Path, user: str, lifetime: float) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self._user = user
        self._lifetime = lifetime
        self.issued: dict[str, list[float]] = {}
        """Client → when its tokens end, in seconds of the epoch."""
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        key_set.write_text(json.dumps({"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def issue(self, client: str) -> tuple[str, float]:
        """A token, and its end in seconds of the epoch."""
        now = time.time()
        end = now + self._lifetime
        claims = {"sub": self._user, "aud": AUDIENCE, "scope": "kafka", "iat": now, "exp": end}
        self.issued.setdefault(client, []).append(end)
        return jwt.encode(claims, self._key, "RS256", {"kid": "one"}), end

    def url(self, client: str) -> str:
        """Where the client gets its tokens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{client}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                token, end = issuer.issue(self.path.removeprefix("/"))
                body = {"access_token": token, "token_type": "bearer", "expires_in": int(end - time.time())}
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
