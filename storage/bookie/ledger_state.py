"""The state that a bookie keeps for a ledger besides its entries: the master key that admits writers, whether the
ledger is fenced, and the explicit LAC that the ledger's writer left.

A ledger is *in limbo* (Apache's name: LedgerStorage.setLimboState) when a part of the journal was given up that may
have held its entries, its fence or its key. Such a ledger takes only the adds of recovery, and a missing entry with
other entries behind it is no proof that the ledger ends there. If the ledger's key is unknown, the first client that
fences or recovers the ledger brings the key, just as BookKeeper's bookies take the key of the first client that names a
ledger.

The states of all ledgers are in memory, as in BookKeeper's LedgerMetadataIndex, so that an add is decided at once. A
change is written to the journal when it happens, and to the index at the next checkpoint.
"""

import struct
from collections.abc import Iterable

MASTER_KEY_SIZE_MAX = 255
ENTRY_BYTES_MIN = 24
"""A bookie reads the ledger id, entry id and LAC of an entry, so a shorter entry is refused (EBADREQ). Apache's bookie
refuses only entries of up to 16 bytes, though it needs the LAC as well."""
_RECORD = struct.Struct(">BB")
_FENCED = 1
_LIMBO = 2
_KEY_UNKNOWN = 4
_KEPT = 8

EXPLICIT_LAC_BYTES_MIN = 16
EXPLICIT_LAC_BYTES_MAX = 255
"""The longest LAC packet that is accepted. A packet holds i64 ledger id, i64 LAC and a digest, which has at most 20
bytes today."""
_LAC_PACKET = struct.Struct(">qq")


class BookieLedgerState:
    """One ledger's state. Only the loop's thread uses it."""

    __slots__ = ("explicit_lac", "fence_durable", "fenced", "kept", "key_durable", "ledger_id", "limbo", "master_key")

    def __init__(
        self, ledger_id: int, master_key: bytes | None, *, fenced: bool = False, key_durable: bool = False
    ) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        """The key of the ledger; None when the key was lost with a part of the journal and no client has brought it
        again."""
        self.fenced = fenced
        """Whether the bookie refuses all adds except those of recovery. A fence request or limbo makes this True, and
        nothing makes it False again."""
        self.fence_durable = fenced
        """Whether the fence's record is durable, so that fence requests may be answered. The value stays False when the
        write of the record failed; the next request tries again."""
        self.key_durable = key_durable
        """Whether the journal or the index holds the key. Until then every group of adds brings the key record along,
        so that no entry can be durable without it."""
        self.limbo = False
        self.kept = False
        """Whether the collector leaves the ledger alone even though the metadata does not list it: the metadata was
        restored from a copy that may be older than the ledger."""
        self.explicit_lac: bytes | None = None
        """The packet with the highest LAC among the durable packets; None when the ledger has no durable packet."""

    def raise_explicit_lac(self, packet: bytes) -> bool:
        """Takes a durable packet and returns True. Returns False when the packet's LAC is below the known LAC, because
        the LAC that readers see must never go back. BookKeeper's bookie takes any packet, so READ_LAC may go back
        there."""
        known = self.explicit_lac
        if known is not None and explicit_lac_of(packet) < explicit_lac_of(known):
            return False
        self.explicit_lac = packet
        return True

    def encode(self) -> bytes:
        """Returns the ledger's record in the index. docs/DATA_FILES.md describes its bytes, in "4. Index: `index/`
        (RocksDB)"."""
        key = self.master_key or b""
        flags = (
            _FENCED * self.fenced | _LIMBO * self.limbo | _KEY_UNKNOWN * (self.master_key is None) | _KEPT * self.kept
        )
        return _RECORD.pack(flags, len(key)) + key + (self.explicit_lac or b"")

    @classmethod
    def decode(cls, ledger_id: int, data: bytes) -> "BookieLedgerState":
        """Reads a record of the index. Raises ValueError."""
        end = _RECORD.size + data[1] if len(data) >= _RECORD.size else _RECORD.size
        if len(data) != end and not EXPLICIT_LAC_BYTES_MIN <= len(data) - end <= EXPLICIT_LAC_BYTES_MAX:
            raise ValueError(f"state of ledger {ledger_id} has {len(data)} bytes")
        key = None if data[0] & _KEY_UNKNOWN else data[_RECORD.size : end]
        state = cls(ledger_id, key, fenced=bool(data[0] & _FENCED), key_durable=True)
        state.limbo = bool(data[0] & _LIMBO)
        state.kept = bool(data[0] & _KEPT)
        state.explicit_lac = data[end:] or None
        return state


def explicit_lac_of(packet: bytes) -> int:
    """Returns the LAC that a packet of at least EXPLICIT_LAC_BYTES_MIN bytes holds."""
    lac: int = _LAC_PACKET.unpack_from(packet)[1]
    return lac


class LedgerStates:
    """The states of all ledgers of this bookie. `changed` holds the ids of the ledgers whose states the next checkpoint
    must write."""

    def __init__(self) -> None:
        self._states: dict[int, BookieLedgerState] = {}
        self._keys: dict[bytes, bytes] = {}
        self.changed: set[int] = set()

    def get(self, ledger_id: int) -> BookieLedgerState | None:
        return self._states.get(ledger_id)

    def load(self, state: BookieLedgerState) -> None:
        """Adds a state that was read from the index. Ledgers with equal keys share one copy of the key, because most
        ledgers have the same key."""
        if state.master_key is not None:
            state.master_key = self._keys.setdefault(state.master_key, state.master_key)
        self._states[state.ledger_id] = state

    def create(self, ledger_id: int, master_key: bytes | None) -> BookieLedgerState:
        state = BookieLedgerState(ledger_id, master_key)
        self.load(state)
        self.changed.add(ledger_id)
        return state

    def learn_key(self, state: BookieLedgerState, master_key: bytes) -> None:
        """Sets a key that was unknown and that a client has brought. The key becomes durable with the ledger's next
        record or with the next checkpoint."""
        assert state.master_key is None, state.ledger_id
        state.master_key = self._keys.setdefault(master_key, master_key)
        state.key_durable = False
        self.changed.add(state.ledger_id)

    def put_into_limbo(self, ledger_id: int) -> BookieLedgerState:
        """Puts a ledger into limbo, which also fences it; the state of an unknown ledger is created, without a key."""
        state = self._states.get(ledger_id) or self.create(ledger_id, None)
        if not state.limbo:
            state.limbo = state.fenced = True
            self.changed.add(ledger_id)
        return state

    def remove(self, ledger_id: int) -> BookieLedgerState | None:
        self.changed.discard(ledger_id)
        return self._states.pop(ledger_id, None)

    def take_changed(self) -> list[tuple[int, bytes]]:
        """Returns (ledger id, index record) of each ledger that changed since the last call, and empties `changed`."""
        records = [(ledger_id, self._states[ledger_id].encode()) for ledger_id in sorted(self.changed)]
        self.changed.clear()
        return records

    def keep(self, ledger_ids: Iterable[int]) -> None:
        """Makes the garbage collector leave these ledgers alone, durably from the next checkpoint on. The bookie must
        know all of these ledgers."""
        for ledger_id in ledger_ids:
            self._states[ledger_id].kept = True
            self.changed.add(ledger_id)

    def kept_ids(self) -> set[int]:
        return {ledger_id for ledger_id, state in self._states.items() if state.kept}

    def ids(self) -> set[int]:
        return set(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._states
