"""Receipts are counted, the room for more messages is bounded, and ids come out in the order of sending."""

import threading

from magnetar.server.tools.messages import receipts as module
from magnetar.server.tools.messages.interruption import Interruption
from magnetar.server.tools.messages.receipts import Receipts

NEVER = Interruption()


def test_ids_come_in_the_order_of_sending() -> None:
    receipts = Receipts(keep_ids=True)
    assert [receipts.begin(1, NEVER) for _ in range(3)] == [1, 2, 3]
    receipts.answer(3, "name 3", 1, True, None, "c")
    assert receipts.take_ids() == []
    receipts.answer(1, "name 1", 1, True, None, "a")
    assert receipts.take_ids() == ["a"]
    receipts.answer(2, "name 2", 1, True, None, "b")
    assert receipts.take_ids() == ["b", "c"]
    assert receipts.wait_for_all(0)


def test_the_first_failure_in_the_order_of_sending_is_kept_and_ends_the_sending() -> None:
    receipts = Receipts(keep_ids=False)
    for _ in range(3):
        receipts.begin(1, NEVER)
    receipts.answer(3, "name 3", 1, False, "late", None)
    receipts.answer(2, "name 2", 1, False, "early", None)
    assert receipts.failure == (2, "name 2", "early")
    assert receipts.begin(1, NEVER) == 0
    assert not receipts.wait_for_all(0)
    receipts.answer(1, "name 1", 1, True, None, None)
    assert receipts.wait_for_all(0)
    assert receipts.acknowledged == 1


def test_sending_waits_for_room_in_messages_and_in_bytes() -> None:
    for count, size in ((module.PENDING_MESSAGES_MAX, 1), (2, module.PENDING_BYTES_MAX // 2)):
        receipts = Receipts(keep_ids=False)
        for _ in range(count):
            receipts.begin(size, NEVER)
        numbers: list[int] = []
        sender = threading.Thread(target=lambda r=receipts, s=size, n=numbers: n.append(r.begin(s, NEVER)))
        sender.start()
        sender.join(0.05)
        assert sender.is_alive()
        receipts.answer(1, "name 1", size, True, None, None)
        sender.join(10)
        assert numbers == [count + 1]


def test_one_message_larger_than_the_room_is_sent_alone() -> None:
    receipts = Receipts(keep_ids=False)
    assert receipts.begin(module.PENDING_BYTES_MAX * 2, NEVER) == 1
