"""The bytes of the journal: batches, file headers, and bytes that are not a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.journal_format import (
    BATCH_HEADER_SIZE,
    FENCE,
    LEDGER_KEY,
    BatchKind,
    Salt,
    batch_pattern,
    encode_batch,
    fence_record,
    file_header,
    ledger_key_record,
    padding,
    parse_batch_header,
    parse_control,
    parse_file_header,
    salt_of,
    salt_of_bits,
    split_batch,
    verify_batch,
)
from pulsar_proto.checksum import crc32c
from tests.storage.bookie.helpers import entry_of

SALT = Salt(0x1234, 0x5678)


def decode(data: bytes) -> tuple[list[tuple[int, int, bytes]], list[bytes]]:
    header = parse_batch_header(data[:BATCH_HEADER_SIZE], SALT)
    assert header is not None
    body = data[BATCH_HEADER_SIZE:]
    assert verify_batch(header, body, SALT)
    controls, entries = split_batch(header, body)
    return [tuple(control) for control in controls], entries  # type: ignore[misc]


def with_crc(head: bytes) -> bytes:
    return 2 * (head + crc32c(head).to_bytes(4, "big"))


def test_the_file_header_is_32_bytes_with_a_checksum_and_stands_twice() -> None:
    header = file_header(3, 77, 0xABCDEF01234567)
    head = b"MGJF" + bytes.fromhex("abcdef 02 0000000000000003 000000000000004d 01234567")
    assert header == with_crc(head)
    assert parse_file_header(header) == (3, 77, Salt(header=0x01234567, body=0xABCDEF01))


def test_a_file_of_the_first_version_has_one_salt_of_32_bits() -> None:
    header = with_crc(b"MGJF" + bytes.fromhex("00000001 0000000000000003 000000000000004d 0000abcd"))
    assert parse_file_header(header) == (3, 77, Salt(0xABCD, 0xABCD))


@pytest.mark.parametrize("word", ["00000000", "00000003", "00000101"])
def test_a_file_of_another_version_is_refused(word: str) -> None:
    header = with_crc(b"MGJF" + bytes.fromhex(word + "0000000000000003 000000000000004d 0000abcd"))
    with pytest.raises(ValueError, match="this program knows 1 and 2"):
        parse_file_header(header)


def test_a_file_header_with_a_flipped_bit_is_refused_but_its_salt_is_known() -> None:
    header = file_header(3, 77, 0xABCD)
    for position in range(32):
        damaged = header[:position] + bytes([header[position] ^ 1]) + header[position + 1 :]
        with pytest.raises(ValueError):
            parse_file_header(damaged)
        assert salt_of(damaged) == salt_of_bits(0xABCD)
        assert salt_of(damaged[:32]) is None


def test_a_batch_byte_by_byte() -> None:
    batch = b"".join(encode_batch(1, 5, SALT, [fence_record(9)], [b"first", b"second"], [5, 6]))
    body = bytes.fromhex("00000010 00000005 00000006" + "0000000000000009 ffffffffffffe000") + b"firstsecond"
    rest = crc32c(body, SALT.body).to_bytes(4, "big")
    rest += bytes.fromhex("0000000000000001 0000000000000005 00000000 00000001 00000003 00000027")
    assert batch == b"MGJB" + crc32c(rest, SALT.header).to_bytes(4, "big") + rest + body


@given(st.lists(st.binary(max_size=200), max_size=300), st.integers(0, 3))
def test_a_batch_reads_back_as_it_was_written(entries: list[bytes], keys: int) -> None:
    controls = [ledger_key_record(number, b"key") for number in range(keys)]
    batch = b"".join(encode_batch(1, 5, SALT, controls, entries, list(map(len, entries))))
    assert decode(batch) == ([(number, LEDGER_KEY, b"key") for number in range(keys)], entries)


def test_large_entries_are_written_as_they_are_and_not_joined() -> None:
    entries = [bytes(40_000), b"x" * 50_000]
    buffers = encode_batch(1, 5, SALT, [], entries, [40_000, 50_000])
    assert [buffer is entry for buffer, entry in zip(buffers[1:], entries, strict=True)] == [True, True]
    assert decode(b"".join(buffers)) == ([], entries)


def test_small_entries_are_joined_into_pieces_of_some_64_kilobytes() -> None:
    entries = [bytes(1000)] * 640
    sizes = [len(buffer) for buffer in encode_batch(1, 5, SALT, [], entries, [1000] * 640)[1:]]
    assert max(sizes) <= 66_000
    assert sum(sizes) == 640_000


def test_any_flipped_bit_of_a_batch_is_noticed() -> None:
    batch = b"".join(encode_batch(1, 5, SALT, [], [entry_of(1, 0)], [len(entry_of(1, 0))]))
    for position in range(len(batch)):
        damaged = batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]
        header = parse_batch_header(damaged[:BATCH_HEADER_SIZE], SALT)
        assert header is None or not verify_batch(header, damaged[BATCH_HEADER_SIZE:], SALT)
        assert (header is None) == (position < BATCH_HEADER_SIZE)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_batch_made_with_another_salt_is_none(header: int, body: int) -> None:
    """This holds for all values and not only for most: from another starting value, the CRC of the same bytes is always
    another one."""
    made = b"".join(encode_batch(1, 5, Salt(header, body), [], [b"x"], [1]))
    parsed = parse_batch_header(made[:BATCH_HEADER_SIZE], SALT)
    assert (parsed is not None) == (header == SALT.header)
    if parsed is not None:
        assert verify_batch(parsed, made[BATCH_HEADER_SIZE:], SALT) == (body == SALT.body)


def test_headers_of_one_journals_batches_are_searched() -> None:
    first, second = (b"".join(encode_batch(number, 5, SALT, [], [b"\n" * 9], [9])) for number in (7, 0x5D2A))
    for number, offset in ((7, 4), (0x5D2A, 4 + len(first))):
        match = batch_pattern(number).search(b"MGJB" + first + second)
        assert match is not None
        assert match.start() == offset
    assert batch_pattern(8).search(first + second) is None


def test_padding_goes_up_to_the_next_page() -> None:
    assert [padding(end) for end in (0, 1, 4095, 4096, 4097)] == [0, 4095, 1, 0, 4095]


def test_control_records_are_laid_out_as_apaches() -> None:
    assert ledger_key_record(7, b"abc").hex() == "0000000000000007" + "fffffffffffff000" + "00000003" + b"abc".hex()
    assert parse_control(ledger_key_record(7, b"abc")) == (7, LEDGER_KEY, b"abc")
    assert parse_control(fence_record(7)) == (7, FENCE, b"")


def test_an_entry_with_a_control_records_id_stays_an_entry() -> None:
    odd = entry_of(1, LEDGER_KEY, b"payload")
    batch = b"".join(encode_batch(1, 5, SALT, [], [odd], [len(odd)], BatchKind.RECORDS))
    assert decode(batch) == ([], [odd])
