"""Messages that were sent and have no receipt yet: how many there may be, and what became of each. The client's own
threads bring the receipts."""

import threading
from typing import Any, NamedTuple

from magnetar.server.tools.messages.interruption import Interruption

PENDING_MESSAGES_MAX = 1000
PENDING_BYTES_MAX = 32 << 20
LOOK_SECONDS = 0.2


class Failure(NamedTuple):
    """A message that was not acknowledged: its number from 1 on, the name by which it is told, the client's result."""

    number: int
    name: str
    result: Any


class Receipts:
    """Counts receipts, and keeps the ids of messages until they were taken in the order of sending.

    One thread sends: it calls `begin`, then lets the client call `answer`, and takes ids with `take_ids`.
    """

    def __init__(self, *, keep_ids: bool) -> None:
        self._keep_ids = keep_ids
        self._changed = threading.Condition()
        self._pending_bytes = 0
        self._sent = 0
        self._ids: dict[int, Any] = {}
        self._next_id = 0
        self.acknowledged = 0
        self.failure: Failure | None = None
        """The first message that was not acknowledged, in the order of sending."""
        self._failed = 0

    @property
    def pending(self) -> int:
        return self._sent - self.acknowledged - self._failed

    def begin(self, size: int, interruption: Interruption) -> int:
        """Waits until another message may be sent, and returns its number, from 1 on. It returns 0 when the command has
        to end instead, because of a failure or a signal."""
        with self._changed:
            while not self._has_room(size) and self.failure is None and not interruption:
                self._changed.wait(LOOK_SECONDS)
            if self.failure is not None or interruption:
                return 0
            self._sent += 1
            self._pending_bytes += size
            return self._sent

    def _has_room(self, size: int) -> bool:
        if self.pending == 0:
            return True
        return self.pending < PENDING_MESSAGES_MAX and self._pending_bytes + size <= PENDING_BYTES_MAX

    def answer(self, number: int, name: str, size: int, is_ok: bool, result: Any, message_id: Any) -> None:
        """Notes the answer to a message. The client calls this from its thread, and would end the process if this
        raised."""
        with self._changed:
            self._pending_bytes -= size
            if is_ok:
                self.acknowledged += 1
                if self._keep_ids:
                    self._ids[number] = message_id
            else:
                self._failed += 1
                if self.failure is None or number < self.failure.number:
                    self.failure = Failure(number, name, result)
            self._changed.notify()

    def take_ids(self) -> list[Any]:
        """Returns the ids that are known and were not taken yet, up to the first message that has none yet."""
        taken = []
        with self._changed:
            while self._next_id + 1 in self._ids:
                self._next_id += 1
                taken.append(self._ids.pop(self._next_id))
        return taken

    def wait_for_all(self, seconds: float) -> bool:
        """Waits until every message that was sent has its answer; returns whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.pending == 0, seconds)
