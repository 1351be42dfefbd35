"""The answer to the opening handshake of a WebSocket (RFC 6455, section 4.2.2). This module does no I/O."""

import hashlib
from base64 import b64encode

from aiohttp import web

_KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def switching_protocols(request: web.BaseRequest) -> web.StreamResponse:
    """Returns the answer to a valid opening handshake. It offers no extension, because a compressed text could be a
    thousand times as long as what the peer sent. After this answer the connection does not go back to HTTP."""
    key = request.headers["Sec-WebSocket-Key"].encode()
    accept = b64encode(hashlib.sha1(key + _KEY_SUFFIX, usedforsecurity=False).digest()).decode()
    headers = {"Upgrade": "websocket", "Connection": "upgrade", "Sec-WebSocket-Accept": accept}
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    return response
