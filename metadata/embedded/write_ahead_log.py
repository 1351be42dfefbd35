"""Parses an SQLite write-ahead log without I/O: finds the pages that count, and whether the end of the log was torn or
damaged.

SQLite reads its log up to the first frame that does not verify, and drops the rest silently. After a crash this is
right for the one transaction that was being written. But everything before the last transaction was fsynced and perhaps
acknowledged. A bad frame before the last transaction means that the disk returned other bytes than were written, and
acknowledged records would silently go back in time. The format is described at sqlite.org/fileformat2.html, "The
Write-Ahead Log".

Two kinds of damage cannot be seen here: damage within the last transaction of the log, which looks torn, and a log that
is missing as a whole. The store's witness finds them (`magnetar.metadata.embedded.witness`).
"""

import struct
from typing import NamedTuple

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
MAGIC_LITTLE_ENDIAN = 0x377F0682
MAGIC_BIG_ENDIAN = 0x377F0683
CHECKSUMMED_HEADER_BYTES = 24
CHECKSUMMED_FRAME_HEADER_BYTES = 8
UINT32 = 0xFFFFFFFF

Checksum = tuple[int, int]
Frames = list[tuple[int, ...]]
"""The heads of frames: page number, number of pages after the commit (0 when the frame does not end a transaction), two
salts, two words of checksum."""


class WriteAheadLog(NamedTuple):
    """The content of a log up to its last whole transaction."""

    pages: dict[int, int]
    """For each page number (the first is 1), the offset in the log of the newest content that counts."""
    page_count: int
    """How many pages the database has with the log; 0 when the log holds no whole transaction."""
    end: int
    """The offset behind the last whole transaction."""
    damage: int | None
    """The offset of the first frame that was durable and no longer verifies; None for a sound or merely torn log."""


def read_log(wal: bytes, page_bytes: int) -> WriteAheadLog:
    """Follows the frames as SQLite's recovery does (walIndexRecover), and checks the frames after the last sound one
    for damage."""
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    frames = [
        struct.unpack_from(">6I", wal, offset)
        for offset in range(HEADER_BYTES, len(wal) - frame_bytes + 1, frame_bytes)
    ]
    nothing = WriteAheadLog({}, 0, HEADER_BYTES, None)
    if not frames:
        return nothing
    magic, _, header_page_bytes, _, *salts = struct.unpack_from(">6I", wal)
    chain = struct.unpack_from(">2I", wal, CHECKSUMMED_HEADER_BYTES)
    words = "<I" if magic == MAGIC_LITTLE_ENDIAN else ">I"
    if (
        magic not in (MAGIC_LITTLE_ENDIAN, MAGIC_BIG_ENDIAN)
        or header_page_bytes != page_bytes
        or checksum(wal[:CHECKSUMMED_HEADER_BYTES], words, (0, 0)) != chain
    ):
        # The header is fsynced before the first frame is written. Behind a bad header nothing can be trusted.
        return nothing._replace(damage=0 if any(_commits(frames, list(frames[0][2:4]))) else None)
    sound = 0
    for frame in frames:
        offset = HEADER_BYTES + sound * frame_bytes
        if list(frame[2:4]) != salts or frame[0] == 0:
            break
        chain = _frame_checksum(wal[offset : offset + frame_bytes], words, chain)
        if chain != frame[4:6]:
            break
        sound += 1
    whole = max((number + 1 for number in range(sound) if frames[number][1]), default=0)
    pages = {frames[number][0]: HEADER_BYTES + number * frame_bytes + FRAME_HEADER_BYTES for number in range(whole)}
    page_count = frames[whole - 1][1] if whole else 0
    end = HEADER_BYTES + whole * frame_bytes
    return WriteAheadLog(pages, page_count, end, _damage_at(wal, frames, sound, frame_bytes, salts, words))


def _damage_at(wal: bytes, frames: Frames, sound: int, frame_bytes: int, salts: list[int], words: str) -> int | None:
    """Returns the offset of the first damaged frame, or None when no frame is damaged.

    `sound` counts the frames at the beginning of the log that verify, so frame number `sound` is the first frame that
    does not verify. It is damaged if it was durable once. If only the last transaction is affected, a crash during its
    write explains the fault: the log is torn then, not damaged. `words` is the argument of `checksum`.
    """
    if sound == len(frames):
        return None
    offset = HEADER_BYTES + sound * frame_bytes
    if (
        list(frames[sound][2:4]) != salts
        and _commits(frames[sound + 1 : sound + 2], salts)
        and _follows(wal, frames, sound + 1, frame_bytes, words)
    ):
        return offset  # no rest of an older log: the next frame continues this one's checksum; only this head is bad
    rest = _commits(frames[sound:], salts)
    torn_transaction_only = sum(rest) == 0 or (sum(rest) == 1 and rest[-1])
    return None if torn_transaction_only else offset


def checksum(data: bytes, words: str, start: Checksum) -> Checksum:
    """Computes SQLite's running checksum over pairs of 32-bit words; `words` is "<I" or ">I"."""
    low, high = start
    numbers = struct.unpack(f"{words[0]}{len(data) // 4}I", data)
    pairs = iter(numbers)
    for first, second in zip(pairs, pairs, strict=True):
        low = (low + first + high) & UINT32
        high = (high + second + low) & UINT32
    return low, high


def _frame_checksum(frame: bytes, words: str, chain: Checksum) -> Checksum:
    chain = checksum(frame[:CHECKSUMMED_FRAME_HEADER_BYTES], words, chain)
    return checksum(frame[FRAME_HEADER_BYTES:], words, chain)


def _follows(wal: bytes, frames: Frames, number: int, frame_bytes: int, words: str) -> bool:
    """Returns whether this frame verifies, on the assumption that the checksum in the previous frame is right."""
    if number >= len(frames):
        return False
    offset = HEADER_BYTES + number * frame_bytes
    before = (frames[number - 1][4], frames[number - 1][5])
    return _frame_checksum(wal[offset : offset + frame_bytes], words, before) == frames[number][4:6]


def _commits(frames: Frames, salts: list[int]) -> list[bool]:
    """Returns, for each frame of this generation of the log, whether it ends a transaction.

    Frames of older generations have other salts and are left out.
    """
    return [frame[1] != 0 for frame in frames if list(frame[2:4]) == salts]
