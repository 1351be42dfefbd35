"""An issuer of tokens over HTTP, as OAuth 2.0 has it: the well-known document and the token's endpoint."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT, SECRET = "orders-service", "only the issuer & I know it"
SECONDS = 600


class Issuer(ThreadingHTTPServer):
    """Gives the client CLIENT tokens for the role of its id, signed with a key of its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.token_endpoint = f"{self.url}/oauth/token"
        self.forms: list[dict[str, str]] = []
        """The forms that clients have posted."""
        self.answer: bytes | None = None
        """What the token's endpoint answers instead of a token, with `status`."""
        self.status = 200
        self.redirects: dict[str, str] = {}
        """The paths that are somewhere else: path -> address."""

    def public_key(self, folder: Path) -> Path:
        """Writes the key by which servers judge the tokens."""
        path = folder / "issuer.key"
        path.write_bytes(self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
        return path

    def token_for(self, form: dict[str, str]) -> tuple[int, bytes]:
        self.forms.append(form)
        if self.answer is not None:
            return self.status, self.answer
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return 401, b'{"error": "invalid_client", "error_description": "who are you?"}'
        claims = {"sub": CLIENT, "aud": form.get("audience", ""), "exp": time.time() + SECONDS}
        token = jwt.encode(claims, self.key, algorithm="RS256")
        return 200, json.dumps({"access_token": token, "expires_in": SECONDS, "token_type": "Bearer"}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        if self.path in self.server.redirects:
            self._send(302, b"")
            return
        found = self.path.endswith("/.well-known/openid-configuration")
        self._send(200 if found else 404, json.dumps({"token_endpoint": self.server.token_endpoint}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path in self.server.redirects:
            self._send(302, b"")
            return
        self._send(*self.server.token_for({key: values[0] for key, values in parse_qs(body).items()}))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", self.server.redirects[self.path])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at `forms` instead."""


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        thread = threading.Thread(target=issuer.serve_forever, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            issuer.shutdown()
            thread.join()


def key_file(folder: Path, secret: str = SECRET) -> Path:
    """Writes the file that a client's administrator gets from the issuer."""
    path = folder / "client.json"
    path.write_text(json.dumps({"type": "client_credentials", "client_id": CLIENT, "client_secret": secret}))
    return path
