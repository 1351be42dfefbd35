"""Seven kinds of harm to one file, at random places. Each changes the file's content in place, except for deletion."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

END = 1 << 62


class Harm(NamedTuple):
    """Describes what was done. `ranges` are the bytes of each file, by their offsets before the harm, that it may have
    affected."""

    what: str
    file: Path
    ranges: dict[Path, tuple[int, int]]


class NothingToDo(Exception):
    """Says that the harm would not change this file."""


Harmer = Callable[[Path, Random, list[Path], list[Path]], Harm]
"""A kind of harm. It takes the file, a generator, the other files of this kind beside it, and the files of this kind in
an older copy of the folder."""


def cut(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    size = _size(file)
    end = rng.randrange(size)
    os.truncate(file, end)
    return Harm(f"cut to {end} of {size} bytes", file, {file: (end, END)})


def flip_a_bit(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    offset, bit = rng.randrange(_size(file)), rng.randrange(8)
    _write(file, offset, bytes([_read(file, offset, 1)[0] ^ 1 << bit]))
    return Harm(f"bit {bit} of byte {offset} flipped", file, {file: (offset, offset + 1)})


def zero_a_range(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    size = _size(file)
    offset = rng.randrange(size)
    length = min(rng.choice([1, 16, 512, 4096, 65536]), size - offset)
    if not any(_read(file, offset, length)):
        raise NothingToDo
    _write(file, offset, bytes(length))
    return Harm(f"{length} bytes from {offset} zeroed", file, {file: (offset, offset + length)})


def duplicate_a_range(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    """Repeats a range of bytes, so that everything behind it moves up. To the reader of an entry log what moved is
    lost; replay of a journal searches for the batches that moved."""
    data = file.read_bytes()
    start = rng.randrange(_size(file))
    end = min(len(data), start + rng.choice([1, 44, 512, 4096, 65536]))
    _rewrite(file, data[:end] + data[start:])
    last = end + 1 if file.suffix == ".journal" else END
    return Harm(f"bytes {start} to {end} twice", file, {file: (end, last)})


def delete(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    file.unlink()
    return Harm("deleted", file, {file: (0, END)})


def put_an_old_copy_back(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    """Puts a file of the older copy in this one's place: the one of the same name if there is one."""
    same = [copy for copy in older if copy.name == file.name]
    copies = same or older
    if not copies:
        raise NothingToDo
    data, copy = file.read_bytes(), rng.choice(copies).read_bytes()
    if data == copy:
        raise NothingToDo
    _rewrite(file, copy)
    first = next((i for i in range(0, len(data), 4096) if data[i : i + 4096] != copy[i : i + 4096]), len(data))
    return Harm("an old copy put back", file, {file: (first, END)})


def swap(file: Path, rng: Random, beside: list[Path], older: list[Path]) -> Harm:
    if not beside:
        raise NothingToDo
    other = rng.choice(beside)
    data, others = file.read_bytes(), other.read_bytes()
    if data == others:
        raise NothingToDo
    _rewrite(file, others)
    _rewrite(other, data)
    return Harm(f"swapped with {other.name}", file, {file: (0, END), other: (0, END)})


HARMS: dict[str, Harmer] = {
    harmer.__name__: harmer
    for harmer in (cut, flip_a_bit, zero_a_range, duplicate_a_range, delete, put_an_old_copy_back, swap)
}


def _size(file: Path) -> int:
    size = file.stat().st_size
    if not size:
        raise NothingToDo
    return size


def _read(file: Path, offset: int, length: int) -> bytes:
    with open(file, "rb") as opened:
        opened.seek(offset)
        return opened.read(length)


def _write(file: Path, offset: int, data: bytes) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        opened.write(data)


def _rewrite(file: Path, data: bytes) -> None:
    """Writes to the same inode, so that a process which has the file open sees the change."""
    with open(file, "r+b") as opened:
        opened.write(data)
        opened.truncate(len(data))
