"""A durable file writes any number of buffers, and continues when the kernel took only a part of them."""

import os
from pathlib import Path

import pytest

from magnetar.storage.bookie.durable_file import IOV_MAX, DurableFile


@pytest.mark.parametrize("count", [1, IOV_MAX, IOV_MAX + 1, 2 * IOV_MAX + 3])
def test_more_buffers_than_one_call_takes_are_written_in_order(tmp_path: Path, count: int) -> None:
    buffers = [b"%d," % number for number in range(count)]
    whole = b"".join(buffers)
    file = DurableFile(str(tmp_path / "f"), create=True)
    assert file.write(buffers, 7) == 7 + len(whole)
    assert (tmp_path / "f").read_bytes() == bytes(7) + whole


def test_what_the_kernel_did_not_take_is_written_again_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = [b"abc", b"", b"defgh", b"i" * 20]
    taken = os.pwritev

    def reluctant(fd: int, given: list[bytes], offset: int) -> int:
        return taken(fd, [b"".join(given)[:4]], offset)

    file = DurableFile(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "pwritev", reluctant)
    assert file.write(buffers, 0) == 28
    assert (tmp_path / "f").read_bytes() == b"".join(buffers)
