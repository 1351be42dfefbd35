"""The rules of deduplication, on a log that is a list, with appends that fail and restarts at any moment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.server.topics.publishing.dedup_rules import DedupTable, DedupVerdict
from tests.rounds import rounds

NAMES = ("a", "b")


class Log(RuleBasedStateMachine):
    """Producers send, and send again from any earlier message on. The log confirms in order, or fails what is on its
    way. Nothing may be in the log twice, and nothing may count as a duplicate that is not in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DedupTable(producers_max=10)
        self.log: list[tuple[str, int, int]] = []
        self.under_way: list[tuple[str, int, int]] = []
        self.next_id = dict.fromkeys(NAMES, 0)
        self.snapshot: dict[str, int] = {}
        self.snapshot_at = 0

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 5), size=st.integers(1, 3))
    def send(self, name: str, back: int, size: int) -> None:
        first = max(0, self.next_id[name] - back)
        last = first + size - 1
        verdict = self.table.judge(name, first, last)
        stored = {each for owner, low, high in self.log if owner == name for each in range(low, high + 1)}
        pushed = {each for owner, low, high in self.under_way if owner == name for each in range(low, high + 1)}
        if verdict is DedupVerdict.DUPLICATE:
            assert first in stored
        elif verdict is DedupVerdict.UNKNOWN:
            assert first in pushed
        else:
            assert first not in stored | pushed
            self.under_way.append((name, first, last))
            self.next_id[name] = last + 1

    @precondition(lambda self: self.under_way)
    @rule()
    def confirm(self) -> None:
        name, first, last = self.under_way.pop(0)
        self.log.append((name, first, last))
        self.table.stored(name, last)

    @rule()
    def fail(self) -> None:
        self.under_way.clear()
        self.table.forget_unconfirmed()
        self._go_back()

    @rule()
    def take_snapshot(self) -> None:
        self.snapshot, self.snapshot_at = self.table.snapshot(), len(self.log)

    @rule()
    def restart(self) -> None:
        self.under_way.clear()
        self.table = DedupTable(producers_max=10)
        self.table.replay(self.snapshot.items(), now_s=0)
        self.table.replay([(name, last) for name, _, last in self.log[self.snapshot_at :]], now_s=0)
        self._go_back()

    def _go_back(self) -> None:
        """Makes every client send again what was not confirmed."""
        for name in NAMES:
            self.next_id[name] = max((last for owner, _, last in self.log if owner == name), default=-1) + 1

    @invariant()
    def nothing_stands_twice(self) -> None:
        for name in NAMES:
            ids = [each for owner, low, high in self.log if owner == name for each in range(low, high + 1)]
            assert len(ids) == len(set(ids))

    @invariant()
    def a_producer_that_comes_is_told_the_highest(self) -> None:
        for name in NAMES:
            assert self.table.highest_pushed(name) == self.next_id[name] - 1


TestLog = Log.TestCase
TestLog.settings = settings(max_examples=rounds(60), stateful_step_count=30, deadline=None)


def test_who_left_long_ago_is_forgotten_and_who_came_back_is_not() -> None:
    table = DedupTable(producers_max=10)
    for name in ("stays", "leaves", "returns"):
        table.judge(name, 5, 5)
        table.stored(name, 5)
    table.left("leaves", now_s=100)
    table.left("returns", now_s=100)
    table.came("returns")
    assert table.forget_inactive(before_s=100) == 0
    assert table.forget_inactive(before_s=101) == 1
    assert table.snapshot() == {"stays": 5, "returns": 5}
    assert table.highest_pushed("leaves") == -1


def test_a_snapshot_holds_the_names_that_were_active_last() -> None:
    table = DedupTable(producers_max=2)
    for name in ("a", "b", "c", "a"):
        highest = table.highest_pushed(name) + 1
        table.judge(name, highest, highest)
        table.stored(name, highest)
    assert table.snapshot() == {"c": 0, "a": 1}


def test_of_names_that_left_only_so_many_are_remembered() -> None:
    table = DedupTable(producers_max=3)
    for number in range(10):
        table.judge(str(number), 0, 0)
        table.stored(str(number), 0)
        table.left(str(number), now_s=number)
    assert len(table) == 3
    assert table.highest_pushed("9") == 0
