"""A million scattered acknowledgements: what they cost in memory and to store."""

import random
import time

from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.cursor_record import encode_position, parse_position
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import Position

LEDGERS = 40
ENTRIES = 50_000


def scattered(ledgers: LedgerList) -> AckState:
    """Returns every second entry on average, in random order."""
    acks = AckState(ledgers, Position(1, -1))
    entries = random.Random(1).sample(range(1, ENTRIES), ENTRIES // 2)
    for ledger_id in range(1, LEDGERS + 1):
        for at in range(0, len(entries), 5_000):
            acks.ack((ledger_id, entry, None) for entry in entries[at : at + 5_000])
    return acks


def test_a_million_scattered_acknowledgements_are_cheap_to_keep_store_and_recover() -> None:
    ledgers = LedgerList(LedgerInfo(ledger_id, ENTRIES, 1, 1) for ledger_id in range(1, LEDGERS + 1))
    acks = scattered(ledgers)
    assert acks.acked_beyond == 1_000_000
    assert acks.number_of_ranges > 450_000
    assert sum(len(bitmap.serialize()) for _, bitmap in acks.bitmaps()) < 400_000, "bytes; 8 KiB a ledger"

    started = time.process_time()
    encoded = encode_position(acks, acks.mark_delete, {}, ManagedLedgerConfig())
    encode_seconds = time.process_time() - started
    assert len(encoded) < 400_000
    assert encode_seconds < 0.1, "on the event loop; measured 4 ms"

    stored = parse_position(encoded, ledgers)
    again = AckState(ledgers, stored.mark_delete)
    again.restore(stored.acked, stored.partial)
    assert dict(again.bitmaps()) == dict(acks.bitmaps())


def test_a_mark_delete_that_swallows_a_million_holes_is_quick() -> None:
    ledgers = LedgerList(LedgerInfo(ledger_id, ENTRIES, 1, 1) for ledger_id in range(1, LEDGERS + 1))
    acks = AckState(ledgers, Position(1, -1))
    for ledger_id in range(1, LEDGERS + 1):
        first = 1 if ledger_id == 1 else 0
        acks.ack((ledger_id, entry, None) for entry in range(first, ENTRIES))
    started = time.process_time()
    assert acks.ack([(1, 0, None)]) == 1
    assert time.process_time() - started < 0.1
    assert acks.mark_delete == (LEDGERS, ENTRIES - 1)
    assert acks.is_plain
