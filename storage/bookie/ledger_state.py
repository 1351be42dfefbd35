"""What a bookie knows of a ledger besides its entries: the master key that admits writers, whether it is fenced, and
the explicit LAC that its writer left.

A ledger is *in limbo* (Apache's name: LedgerStorage.setLimboState) when a part of the journal was given up that may
have held entries, the fence or the key of it. It takes no adds but recovery's, and a missing entry with others behind
it is no proof that the ledger ends there. Its key may be unknown: then the first client that fences or recovers it
brings it, as BookKeeper's bookies take the key of whoever names a ledger first.

Every ledger's state is in memory (as in Java's LedgerMetadataIndex), so that an add decides at once. A change is
written to the journal when it happens and to the index at the next checkpoint.
"""

import struct
from collections.abc import Iterable

MASTER_KEY_SIZE_MAX = 255
_RECORD = struct.Struct(">BB")
_FENCED = 1
_LIMBO = 2
_KEY_UNKNOWN = 4
_KEPT = 8

EXPLICIT_LAC_BYTES_MIN = 16
EXPLICIT_LAC_BYTES_MAX = 255
"""A LAC packet: i64 ledger id, i64 LAC, digest (20 bytes at most today)."""
_LAC_PACKET = struct.Struct(">qq")


class BookieLedgerState:
    __slots__ = ("explicit_lac", "fence_durable", "fenced", "kept", "key_durable", "ledger_id", "limbo", "master_key")

    def __init__(
        self, ledger_id: int, master_key: bytes | None, *, fenced: bool = False, key_durable: bool = False
    ) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        """None: it was lost with a part of the journal, and no client has brought it again."""
        self.fenced = fenced
        """Adds other than recovery's are refused from the moment of the fence request; never goes back."""
        self.fence_durable = fenced
        """A fence request may be answered. False after the write of its record failed: the next one tries again."""
        self.key_durable = key_durable
        """The journal or the index holds the key. Until then every group of adds brings the key record along, so that
        no entry can be durable without it."""
        self.limbo = False
        self.kept = False
        """The collector leaves the ledger alone though the metadata does not list it: it may be of a time that the
        metadata forgot."""
        self.explicit_lac: bytes | None = None
        """The packet with the highest LAC of those that are durable."""

    def raise_explicit_lac(self, packet: bytes) -> bool:
        """Takes a durable packet unless it says less than the known one, so that a reader's LAC never goes back (Apache
        takes any; facts 12.9). True when it was taken."""
        known = self.explicit_lac
        if known is not None and explicit_lac_of(packet) < explicit_lac_of(known):
            return False
        self.explicit_lac = packet
        return True

    def encode(self) -> bytes:
        """The index record: u8 flags (1 fenced, 2 in limbo, 4 key unknown, 8 kept), u8 length of the key, the key, the
        explicit LAC's packet if any."""
        key = self.master_key or b""
        flags = (
            _FENCED * self.fenced | _LIMBO * self.limbo | _KEY_UNKNOWN * (self.master_key is None) | _KEPT * self.kept
        )
        return _RECORD.pack(flags, len(key)) + key + (self.explicit_lac or b"")

    @classmethod
    def decode(cls, ledger_id: int, data: bytes) -> "BookieLedgerState":
        """Raises ValueError."""
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
    """The LAC of a packet of EXPLICIT_LAC_BYTES_MIN or more."""
    lac: int = _LAC_PACKET.unpack_from(packet)[1]
    return lac


class LedgerStates:
    """All ledgers of this bookie. `changed` collects those whose state the next checkpoint must write."""

    def __init__(self) -> None:
        self._states: dict[int, BookieLedgerState] = {}
        self._keys: dict[bytes, bytes] = {}
        self.changed: set[int] = set()

    def get(self, ledger_id: int) -> BookieLedgerState | None:
        return self._states.get(ledger_id)

    def load(self, state: BookieLedgerState) -> None:
        """A state as the index holds it. Most ledgers have the same key: one copy serves all."""
        if state.master_key is not None:
            state.master_key = self._keys.setdefault(state.master_key, state.master_key)
        self._states[state.ledger_id] = state

    def create(self, ledger_id: int, master_key: bytes | None) -> BookieLedgerState:
        state = BookieLedgerState(ledger_id, master_key)
        self.load(state)
        self.changed.add(ledger_id)
        return state

    def learn_key(self, state: BookieLedgerState, master_key: bytes) -> None:
        """A client brought the key that was unknown. It becomes durable with the ledger's next record or checkpoint."""
        assert state.master_key is None, state.ledger_id
        state.master_key = self._keys.setdefault(master_key, master_key)
        state.key_durable = False
        self.changed.add(state.ledger_id)

    def put_into_limbo(self, ledger_id: int) -> BookieLedgerState:
        """The ledger, made without a key when it is not known."""
        state = self._states.get(ledger_id) or self.create(ledger_id, None)
        if not state.limbo:
            state.limbo = state.fenced = True
            self.changed.add(ledger_id)
        return state

    def remove(self, ledger_id: int) -> BookieLedgerState | None:
        self.changed.discard(ledger_id)
        return self._states.pop(ledger_id, None)

    def take_changed(self) -> list[tuple[int, bytes]]:
        """(ledger id, index record) of what changed since the last call; `changed` is empty afterwards."""
        records = [(ledger_id, self._states[ledger_id].encode()) for ledger_id in sorted(self.changed)]
        self.changed.clear()
        return records

    def keep(self, ledger_ids: Iterable[int]) -> None:
        """Ledgers that are here and that the collector must leave alone, durably from the next checkpoint on."""
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
