"""The queue of groups that wait for a ledger: what has left it no longer counts against its bounds."""

import pytest

from magnetar.storage.managed import append_queue
from magnetar.storage.managed.append_queue import AddResult, AppendQueue


def ignore(result: AddResult) -> None:
    """A callback that ignores what became of the group."""


def test_a_queue_that_was_emptied_has_all_its_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_queue, "PENDING_ENTRIES_MAX", 4)
    monkeypatch.setattr(append_queue, "PENDING_BYTES_MAX", 40)
    queue = AppendQueue()
    for _ in range(3):
        assert queue.push([bytes(10)] * 4, ignore), "as many entries and bytes as may wait"
        assert not queue.push([b""], ignore), "an entry more"
        assert queue.entries == 4
        assert len(queue.take()) == 2
        assert queue.push([bytes(40)], ignore)
        assert not queue.push([b"x"], ignore), "a byte more"
        assert len(queue.take()) == 2
