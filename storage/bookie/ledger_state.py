"""What a bookie knows of a ledger besides its entries: the master key that admits writers, and whether it is fenced.

Every ledger's state is in memory (as in Java's LedgerMetadataIndex), so that an add decides at once. A change is
written to the journal when it happens and to the index at the next checkpoint.
"""

import struct

MASTER_KEY_SIZE_MAX = 255
_RECORD = struct.Struct(">BB")
_FENCED = 1


class LedgerState:
    __slots__ = ("fence_durable", "fenced", "key_durable", "ledger_id", "master_key")

    def __init__(self, ledger_id: int, master_key: bytes, *, fenced: bool = False, key_durable: bool = False) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.fenced = fenced
        """Adds other than recovery's are refused from the moment of the fence request; never goes back."""
        self.fence_durable = fenced
        """A fence request may be answered. False after the write of its record failed: the next one tries again."""
        self.key_durable = key_durable
        """The journal or the index holds the key. Until then every group of adds brings the key record along, so that
        no entry can be durable without it."""

    def encode(self) -> bytes:
        """The index record: u8 flags (1 fenced), u8 length of the key, the key."""
        return _RECORD.pack(_FENCED if self.fenced else 0, len(self.master_key)) + self.master_key

    @classmethod
    def decode(cls, ledger_id: int, data: bytes) -> "LedgerState":
        """Raises ValueError."""
        if len(data) < _RECORD.size or len(data) != _RECORD.size + data[1]:
            raise ValueError(f"state of ledger {ledger_id} has {len(data)} bytes")
        return cls(ledger_id, data[_RECORD.size :], fenced=bool(data[0] & _FENCED), key_durable=True)


class LedgerStates:
    """All ledgers of this bookie. `changed` collects those whose state the next checkpoint must write."""

    def __init__(self) -> None:
        self._states: dict[int, LedgerState] = {}
        self._keys: dict[bytes, bytes] = {}
        self.changed: set[int] = set()

    def get(self, ledger_id: int) -> LedgerState | None:
        return self._states.get(ledger_id)

    def load(self, state: LedgerState) -> None:
        """A state as the index holds it. Most ledgers have the same key: one copy serves all."""
        state.master_key = self._keys.setdefault(state.master_key, state.master_key)
        self._states[state.ledger_id] = state

    def create(self, ledger_id: int, master_key: bytes) -> LedgerState:
        state = LedgerState(ledger_id, master_key)
        self.load(state)
        self.changed.add(ledger_id)
        return state

    def remove(self, ledger_id: int) -> LedgerState | None:
        self.changed.discard(ledger_id)
        return self._states.pop(ledger_id, None)

    def take_changed(self) -> list[tuple[int, bytes]]:
        """(ledger id, index record) of what changed since the last call; `changed` is empty afterwards."""
        records = [(ledger_id, self._states[ledger_id].encode()) for ledger_id in sorted(self.changed)]
        self.changed.clear()
        return records

    def ids(self) -> set[int]:
        return set(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._states
