"""The windows of unanswered publishes keep their bounds, and neither lose a byte nor count one twice."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.protocol.publish_window_rules import UNSETTLED_GROUPS_MAX, PublishBudget, PublishWindow


def test_a_window_is_full_at_its_limit_and_half_free_at_its_half() -> None:
    window = PublishWindow(10)
    window.add(9, 900)
    assert not window.may_be_full
    window.add(1, 100)
    assert window.may_be_full
    assert window.settle(10) == 0
    assert window.is_full
    assert window.settle(6) == 0, "the first group is not answered wholly"
    assert not window.is_full
    assert not window.is_half_free
    assert window.settle(5) == 0
    assert window.is_half_free
    assert window.settle(1) == 900
    assert window.settle(0) == 100
    assert window.unanswered_bytes == 0


def test_a_window_without_limit_still_asks_to_be_settled() -> None:
    window = PublishWindow(0)
    for _ in range(UNSETTLED_GROUPS_MAX):
        window.add(5, 10)
    assert not window.may_be_full
    window.add(5, 10)
    assert window.may_be_full
    window.settle(5)
    assert not window.may_be_full
    assert not window.is_full
    assert window.is_half_free


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 100), st.integers(0, 12)), max_size=60))
def test_a_window_agrees_with_a_queue_of_sends(steps: list[tuple[int, int, int]]) -> None:
    window = PublishWindow(1000)
    queue: deque[int] = deque()  # the group of each unanswered SEND
    sizes: list[int] = []
    for count, size, answered in steps:
        window.add(count, size)
        queue.extend([len(sizes)] * count)
        sizes.append(size)
        for _ in range(min(answered, len(queue))):
            queue.popleft()
        window.settle(len(queue))
        assert window.unanswered_count == len(queue)
        assert window.unanswered_bytes == sum(sizes[group] for group in set(queue))


def test_the_budget_settles_only_beyond_its_bound() -> None:
    settled: list[int] = []

    def settle_all() -> None:
        settled.append(budget.unanswered_bytes)
        budget.free(60)

    budget = PublishBudget(100, settle_all)
    assert budget.take(100)
    assert settled == []
    assert budget.take(10)
    assert settled == [110]
    assert budget.unanswered_bytes == 50
    assert budget.has_room()
    assert settled == [110]


def test_the_budget_says_no_when_settling_frees_nothing() -> None:
    budget = PublishBudget(100, lambda: None)
    assert not budget.take(101)
    assert not budget.has_room()
    budget.free(51)
    assert budget.has_room()
