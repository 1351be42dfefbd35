"""The acknowledgements behind a mark-delete as a map of few cells, however many ranges of them there are. Pure."""

from typing import NamedTuple

from magnetar.storage.managed.ack_holes import last_acked
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.ledger_list import LedgerList
from pulsar_proto.ids import Position


class AckMap(NamedTuple):
    """The entries behind a mark-delete, cut into cells of equally many entries; the last cell may have fewer."""

    entries: int
    """How many entries the map shows."""
    to_last_acked: int
    """How many of them come up to the last acknowledged one: what is not acknowledged of these lies in holes."""
    entries_per_cell: int
    acked: list[int]
    """How many entries of each cell are acknowledged."""


def ack_map(acks: AckState, ledgers: LedgerList, before: Position, cells_max: int) -> AckMap:
    """Returns the map of the entries before a position, or, if that is more, up to the last acknowledged one."""
    first = ledgers.rank(acks.mark_delete)
    last = last_acked(acks)
    to_last_acked = 0 if last is None else ledgers.rank(last) - first
    entries = max(to_last_acked, ledgers.rank(Position(before.ledger_id, before.entry_id - 1)) - first)
    entries_per_cell = max(1, -(-entries // cells_max))
    acked = [0] * -(-entries // entries_per_cell)
    for ledger_id, bitmap in acks.bitmaps():
        start = ledgers.rank(Position(ledger_id, -1)) - first
        for cell in range((start + bitmap.min()) // entries_per_cell, (start + bitmap.max()) // entries_per_cell + 1):
            begin = cell * entries_per_cell - start
            acked[cell] += bitmap.range_cardinality(max(begin, 0), begin + entries_per_cell)
    return AckMap(entries, to_last_acked, entries_per_cell, acked)
