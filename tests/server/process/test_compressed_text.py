"""A compressed text: it unpacks to what was packed, in parts of bounded size."""

import gzip
from collections.abc import AsyncIterator

import pytest

from magnetar.server.process.compressed_text import CHUNK_CHARACTERS, UNPACKED_BYTES, compressed


async def pieces(text: str, size: int) -> AsyncIterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


@pytest.mark.parametrize("length", [0, 1, 100, CHUNK_CHARACTERS, 5 * CHUNK_CHARACTERS + 7])
async def test_the_text_comes_out_as_it_went_in(length: int) -> None:
    text = "".join(f"é{number % 977} " for number in range(length))[:length]
    packed = await compressed(pieces(text, 10_001))
    assert gzip.decompress(b"".join(packed.parts)).decode() == text
    unpacked = list(packed.unpacked())
    assert b"".join(unpacked).decode() == text
    assert sum(map(len, unpacked)) == packed.size
    assert max(map(len, unpacked), default=0) <= UNPACKED_BYTES


async def test_the_error_of_the_text_is_raised() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await compressed(broken())
