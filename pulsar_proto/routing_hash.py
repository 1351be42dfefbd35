"""The hash by which Java clients choose the partition of a key, unless they are told otherwise. Source:
JavaStringHash."""

import codecs

_NON_NEGATIVE = 0x7FFF_FFFF


def java_string_hash(key: str) -> int:
    """Returns String.hashCode without its sign: a polynomial over UTF-16 code units."""
    # `str.encode` would import the codec, at the first key and on the event loop.
    units, _ = codecs.utf_16_be_encode(key, "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    return value & _NON_NEGATIVE
