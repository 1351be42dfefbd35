"""The bound on the bytes that are held for all clients: the longest idle are cut off first, and no more than must."""

from dataclasses import dataclass, field

from magnetar.server.process.byte_budget import SHARES, ByteBudget


@dataclass(eq=False)
class Held:
    held_bytes: int
    since_s: float
    cut_off: list[float] = field(default_factory=list)
    asked: int = 0

    def idle_since(self, now_s: float) -> float:
        self.asked += 1
        return self.since_s

    def cut_off_for_room(self) -> None:
        self.cut_off.append(self.since_s)


def cut_off(max_bytes: int, *held: tuple[int, float]) -> list[float]:
    """Counts clients, given as (held bytes, idle since), at the time 10. Returns the idle times of those that are cut
    off, in order."""
    order: list[float] = []
    budget = ByteBudget(max_bytes, lambda: 10.0)
    for size, since_s in held:
        budget.added(Held(size, since_s, order), 0)
    budget.count()
    return order


def test_the_longest_idle_go_first_and_no_more_than_must() -> None:
    held = ((40, 3.0), (40, 1.0), (40, 2.0), (40, 4.0))
    assert cut_off(160, *held) == []
    assert cut_off(159, *held) == [1.0]
    assert cut_off(81, *held) == [1.0, 2.0]
    assert cut_off(0, *held) == []


def test_who_has_just_gone_on_or_makes_the_server_hold_nothing_stays() -> None:
    assert cut_off(10, (40, 10.0), (0, 1.0), (5, 2.0)) == [2.0]


def test_it_counts_whenever_a_share_of_it_was_added() -> None:
    client = Held(1, 10.0)
    budget = ByteBudget(SHARES * 100, lambda: 10.0)
    for _ in range(25):
        budget.added(client, 20)
    assert client.asked == 5


def test_a_count_looks_only_at_clients_that_held_bytes_or_got_some() -> None:
    full, empty, gone = Held(40, 10.0), Held(0, 10.0), Held(40, 10.0)
    budget = ByteBudget(1000, lambda: 10.0)
    for each in (full, empty, gone):
        budget.added(each, 10)
    budget.left(gone)
    assert budget.held_bytes() == 40
    budget.count()
    budget.count()
    assert (full.asked, empty.asked, gone.asked) == (2, 1, 0)
    budget.added(empty, 10)
    budget.count()
    assert empty.asked == 2


def test_a_client_is_idle_since_the_last_count_at_which_nothing_was_held_for_it() -> None:
    now = [10.0]
    order: list[float] = []
    budget = ByteBudget(100, lambda: now[0])
    early, late = Held(60, 11.0, order), Held(0, 1.0, order)
    budget.added(early, 0)
    budget.added(late, 0)
    budget.count()
    late.held_bytes = 60
    budget.added(late, 0)
    now[0] = 12.0
    budget.count()
    assert order == [1.0], "idle since the time 10, and the other one only since 11"
