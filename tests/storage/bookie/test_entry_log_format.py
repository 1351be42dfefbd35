"""The bytes of an entry log: blocks, footers, and every way in which they can be damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.bookie.entry_log_format import (
    MAX_BLOCK_ENTRIES,
    MAX_BLOCK_GAP,
    encode_block,
    encode_footer,
    file_header,
    footer_offset,
    parse_block,
    parse_file_header,
    parse_footer,
    plan_blocks,
)
from pulsar_proto.checksum import crc32c


def block_bytes(ids: list[int], entries: list[bytes]) -> bytes:
    return b"".join(encode_block(4, 7, ids, entries, list(map(len, entries))))


def test_a_block_byte_by_byte() -> None:
    rest = bytes.fromhex(
        # from the generation to the length
        "0000000000000004 0000000000000007 0000000000000009 00000002 00000000 0000001000000003 00000005"
    )
    rest += b"abcdefgh"
    assert block_bytes([9, 10], [b"abc", b"defgh"]) == b"MGEB" + crc32c(rest).to_bytes(4, "big") + rest


def test_ids_with_gaps_stand_in_the_block() -> None:
    data = block_bytes([9, 11], [b"abc", b"defgh"])
    assert data[44 + 8 : 44 + 24] == (9).to_bytes(8, "big") + (11).to_bytes(8, "big")
    block = parse_block(data)
    assert list(block.ids) == [9, 11]
    assert block.entries(0, 2) == [b"abc", b"defgh"]


@given(st.sets(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=40), st.integers(0, 70_000))
def test_a_block_reads_back_as_it_was_written(ids: set[int], size: int) -> None:
    ordered = sorted(ids)
    entries = [bytes([number % 256]) * (size if number == 0 else number) for number in range(len(ordered))]
    block = parse_block(b"in front" + block_bytes(ordered, entries), 8)
    assert list(block.ids) == ordered
    assert block.entries(0, len(ordered)) == entries
    assert b"".join(block.buffers()) == block_bytes(ordered, entries)


def test_any_flipped_bit_of_a_block_is_noticed() -> None:
    data = block_bytes([1, 2, 5], [b"a" * 20, b"b", b"c" * 30])
    for position in range(len(data)):
        with pytest.raises(ValueError):
            parse_block(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])


def test_blocks_are_cut_by_size_count_and_distance() -> None:
    assert plan_blocks(range(10), [100] * 10, 350) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert plan_blocks([0, 1], [10, 1000], 350) == [(0, 1), (1, 2)]
    many = MAX_BLOCK_ENTRIES + 1
    assert plan_blocks(range(many), [1] * many, 1 << 20) == [(0, MAX_BLOCK_ENTRIES), (MAX_BLOCK_ENTRIES, many)]
    assert plan_blocks([0, MAX_BLOCK_GAP, 2 * MAX_BLOCK_GAP + 1], [1, 1, 1], 100) == [(0, 2), (2, 3)]


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60), st.lists(st.integers(1, 500), min_size=60, max_size=60))
@settings(deadline=None)
def test_blocks_cover_all_entries_once_and_in_order(steps: list[int], lengths: list[int]) -> None:
    ids = [sum(steps[: number + 1]) for number in range(len(steps))]
    slices = plan_blocks(ids, lengths[: len(ids)], 900)
    assert [index for start, end in slices for index in range(start, end)] == list(range(len(ids)))
    for start, end in slices:
        assert end - start == 1 or sum(lengths[start:end]) <= 900
        assert all(ids[i + 1] - ids[i] <= MAX_BLOCK_GAP for i in range(start, end - 1))


def test_headers_and_footers_read_back_and_are_checked() -> None:
    assert parse_file_header(file_header(12, 0xA1B2C3D4)) == (12, 0xA1B2C3D4)
    footer = encode_footer({7: 100, 3: 250}, 9000, 5)
    assert footer_offset(footer[-12:]) == 9000
    assert parse_footer(footer, 5) == {3: 250, 7: 100}
    for other in (0, 4, 2**32 - 1):
        with pytest.raises(ValueError):
            parse_footer(footer, other)
    with pytest.raises(ValueError):
        parse_footer(footer[:20] + b"\x01" + footer[21:], 5)
    with pytest.raises(ValueError):
        parse_file_header(file_header(12, 5)[:-1] + b"\x00")
