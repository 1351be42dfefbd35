"""The window is held against a model that keeps a plain list of what is out."""

import random

import pytest

from magnetar.server.websocket.delivery_window_rules import ENTRIES_MAX, DeliveryWindow, EntryKey


def key(entry_id: int, consumer_id: int = 1) -> EntryKey:
    return EntryKey(consumer_id, 7, entry_id)


@pytest.mark.parametrize("seed", range(200))
def test_every_place_of_the_window_is_taken_once_and_given_back_once(seed: int) -> None:
    dice = random.Random(seed)
    window = DeliveryWindow(20, pulls=False)
    sizes = {key(entry_id, consumer_id): dice.choice([1, 1, 3]) for entry_id in range(5) for consumer_id in (1, 2)}
    out: set[tuple[EntryKey, int]] = set()
    acked: set[tuple[EntryKey, int]] = set()
    for step in range(300):
        entry = dice.choice(list(sizes))
        place = dice.randrange(sizes[entry])
        match dice.choice(["sent", "acked", "nacked", "again", "timeout"]):
            case "sent":
                if window.credit > 0 and not window.is_acked(entry, place):
                    acked -= (
                        {(entry, each) for each in range(sizes[entry])}
                        if len(_of(acked, entry)) == sizes[entry]
                        else set()
                    )
                    window.sent(entry, place, (1 << sizes[entry]) - 1, step)
                    out.add((entry, place))
            case "acked":
                known = bool(_of(out, entry)) or 0 < len(_of(acked, entry)) < sizes[entry]
                left = window.acked(entry, place)
                out.discard((entry, place))
                if left is not None:
                    acked.add((entry, place))
                    assert left.bit_count() == sizes[entry] - len(_of(acked, entry))
                else:
                    assert not known
            case "nacked":
                window.nacked(entry, place)
                out.discard((entry, place))
            case "again":
                window.come_again(entry.consumer_id)
                out = {each for each in out if each[0].consumer_id != entry.consumer_id}
            case "timeout":
                if dice.random() < 0.1:
                    assert set(window.timed_out(step)) == {each for each, _ in out}
                    out.clear()
        assert window.credit == 20 - len(out)


def _of(pairs: set[tuple[EntryKey, int]], entry: EntryKey) -> list[int]:
    return [place for each, place in pairs if each == entry]


def test_permits_add_up_and_answers_give_none_back() -> None:
    window = DeliveryWindow(1000, pulls=True)
    window.permit(2)
    window.permit(3)
    window.sent(key(1), 0, 1, 0)
    assert (window.acked(key(1), 0), window.credit) == (0, 4)


def test_a_message_that_comes_again_uses_a_permit_again() -> None:
    window = DeliveryWindow(1000, pulls=True)
    window.permit(2)
    window.sent(key(1), 0, 1, 0)
    window.sent(key(1), 0, 1, 0)
    assert window.credit == 0


def test_messages_that_share_an_id_are_answered_one_by_one() -> None:
    window = DeliveryWindow(10, pulls=False)
    for _ in range(3):
        window.sent(key(0), 0, 1, 0, shares_id=True)
    for credit in (8, 9, 10):
        window.acked(key(0), 0)
        assert window.credit == credit
    assert window.acked(key(0), 0) is None


def test_only_so_many_entries_are_remembered() -> None:
    window = DeliveryWindow(1000, pulls=True)
    for entry_id in range(ENTRIES_MAX + 10):
        window.sent(key(entry_id), 0, 1, 0)
    assert len(window) == ENTRIES_MAX
    assert window.acked(key(0), 0) is None
    assert window.acked(key(ENTRIES_MAX), 0) == 0
