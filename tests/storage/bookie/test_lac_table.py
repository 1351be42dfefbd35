"""What the bookie knows of each ledger's LAC, which watchers a change wakes, and how much is remembered."""

from magnetar.storage.bookie.lac_table import LacTable, Watch


class Woken:
    def __init__(self) -> None:
        self.watches: list[Watch] = []

    def __call__(self, watch: Watch) -> None:
        self.watches.append(watch)


def test_a_lac_only_rises() -> None:
    table = LacTable()
    assert table.known(1) is None
    for lac, known in ((-1, -1), (4, 4), (2, 4), (5, 5)):
        table.raise_to(1, lac)
        assert table.known(1) == known


def test_only_those_are_woken_whose_lac_was_exceeded() -> None:
    table, woken = LacTable(), Woken()
    low, high = table.watch(1, 3, woken), table.watch(1, 7, woken)
    other = table.watch(2, 0, woken)
    table.raise_to(1, 3)
    assert woken.watches == []
    table.raise_to(1, 4)
    assert woken.watches == [low]
    table.raise_to(1, 8)
    assert woken.watches == [low, high]
    assert table.watching == 1
    assert other is not None


def test_nobody_waits_for_what_is_known_or_for_a_fenced_ledger() -> None:
    table, woken = LacTable(), Woken()
    table.raise_to(1, 5)
    assert table.watch(1, 4, woken) is None
    waiting = table.watch(1, 5, woken)
    table.fenced(1)
    assert woken.watches == [waiting]
    assert table.watch(1, 5, woken) is None
    assert table.watching == 0


def test_who_gives_up_is_not_woken() -> None:
    table, woken = LacTable(), Woken()
    first, second = table.watch(1, 0, woken), table.watch(1, 0, woken)
    assert first is not None
    table.unwatch(first)
    table.unwatch(first)
    assert table.watching == 1
    table.raise_to(1, 1)
    assert woken.watches == [second]
    assert second is not None
    table.unwatch(second)
    assert table.watching == 0


def test_ledgers_and_waits_are_bounded() -> None:
    table, woken = LacTable(ledgers_max=3, watches_max=2), Woken()
    for ledger_id in range(4):
        table.raise_to(ledger_id, 1)
    assert [table.known(ledger_id) for ledger_id in range(4)] == [None, 1, 1, 1]
    table.raise_to(1, 2)
    table.raise_to(9, 1)
    assert (table.known(1), table.known(2)) == (2, None)
    assert table.watch(5, 0, woken) is not None
    assert table.watch(5, 0, woken) is not None
    assert table.watch(5, 0, woken) is None
