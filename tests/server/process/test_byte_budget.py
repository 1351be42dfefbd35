"""The bound on the bytes that are held for all clients: the longest idle are cut off first, and no more than must."""

from typing import NamedTuple

from magnetar.server.process.byte_budget import SHARES, ByteBudget


class Held(NamedTuple):
    held_bytes: int
    since_s: float
    cut_off: list[float]

    def idle_since(self, now_s: float) -> float:
        return self.since_s

    def cut_off_for_room(self) -> None:
        self.cut_off.append(self.since_s)


def cut_off(max_bytes: int, *held: tuple[int, float]) -> list[float]:
    """Counts clients, given as (held bytes, idle since), at the time 10. Returns the idle times of those that are cut
    off, in order."""
    order: list[float] = []
    clients = [Held(size, since_s, order) for size, since_s in held]
    ByteBudget(max_bytes, lambda: clients, lambda: 10.0).count()
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
    counts: list[int] = []

    def clients() -> list[Held]:
        counts.append(1)
        return []

    budget = ByteBudget(SHARES * 100, clients, lambda: 10.0)
    for _ in range(25):
        budget.added(20)
    assert len(counts) == 5
