"""Says whether a group of adds is well formed."""

import struct
from collections.abc import Sequence

from magnetar.storage.bookie.ledger_state import ENTRY_BYTES_MIN

_IDS = struct.Struct(">qq")


def is_well_formed(ledger_id: int, entry_ids: Sequence[int], entries: Sequence[bytes], lengths: list[int]) -> bool:
    """Returns whether the entries begin with the ids under which they are added, because replay reads the ids from the
    entries. Only the first and the last entry are checked: a caller that mixes up ids mixes them up there, too."""
    count = len(lengths)
    if count == 0 or len(entry_ids) != count or min(lengths) < ENTRY_BYTES_MIN:
        return False
    if _IDS.unpack_from(entries[0]) != (ledger_id, entry_ids[0]):
        return False
    return count == 1 or _IDS.unpack_from(entries[-1]) == (ledger_id, entry_ids[-1])
