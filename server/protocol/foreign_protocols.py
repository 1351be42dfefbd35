"""Recognises other protocols by their first bytes, so that the log can say what the peer did wrong."""

HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")


def describe_opening(opening: bytes) -> str | None:
    """Returns a sentence for the log that names the protocol, or None for bytes of an unknown protocol."""
    if opening.startswith(HTTP_METHODS):
        return "looks like HTTP; this port speaks Pulsar's binary protocol, the web port is another one"
    if opening.startswith(b"\x16\x03"):
        return "looks like TLS; this port speaks Pulsar's binary protocol without TLS (pulsar://)"
    if opening.startswith((b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")):
        return "looks like the PROXY protocol, which is not enabled"
    return None
