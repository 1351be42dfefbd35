"""Netty's ByteBufUtil.prettyHexDump, by which pulsar-admin shows payloads."""

_HEAD = (
    "         +-------------------------------------------------+\n"
    "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
    "+--------+-------------------------------------------------+----------------+"
)
_FOOT = "\n+--------+-------------------------------------------------+----------------+"
_ROW_BYTES = 16


def pretty_hex_dump(payload: bytes) -> str:
    """Returns the dump without a line end; an empty text for no bytes."""
    if not payload:
        return ""
    rows = []
    for start in range(0, len(payload), _ROW_BYTES):
        row = payload[start : start + _ROW_BYTES]
        digits = "".join(f" {byte:02x}" for byte in row)
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"\n|{start:08x}|{digits:<48} |{shown:<16}|")
    return _HEAD + "".join(rows) + _FOOT
