"""The opening handshake of a WebSocket and the answer to it (RFC 6455, section 4.2). This module does no I/O."""

import hashlib
from base64 import b64decode, b64encode

from aiohttp import web
from aiohttp.web_ws import WebSocketResponse

_KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16


def is_handshake(request: web.BaseRequest) -> bool:
    """Returns whether a request is a valid opening handshake. aiohttp checks most of it, but fails for a key that is
    not ASCII, and logs the subprotocols of a client that asks for others than those offered. A browser's client may
    have put a token there, so aiohttp is told that all of them are offered; the answer names none."""
    try:
        if len(b64decode(request.headers.get("Sec-WebSocket-Key", ""), validate=True)) != _KEY_BYTES:
            return False
    except ValueError:
        return False
    asked = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    return WebSocketResponse(protocols=asked).can_prepare(request).ok


def switching_protocols(request: web.BaseRequest) -> web.StreamResponse:
    """Returns the answer to a valid opening handshake. It offers no extension, because a compressed text could be a
    thousand times as long as what the peer sent. After this answer the connection does not go back to HTTP."""
    key = request.headers["Sec-WebSocket-Key"].encode()
    accept = b64encode(hashlib.sha1(key + _KEY_SUFFIX, usedforsecurity=False).digest()).decode()
    headers = {"Upgrade": "websocket", "Connection": "upgrade", "Sec-WebSocket-Accept": accept}
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    return response
