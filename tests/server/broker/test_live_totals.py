"""The sums of all topics: how old they may be, and between which two there is a rate."""

from magnetar.server.broker.live_totals import OLD_PERIODS, PERIOD_SECONDS, LiveTotals


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def spans(pauses_s: list[float]) -> list[float]:
    """Returns the time between the two sums that each of some callers gets, who come after these pauses."""
    clock = Clock()
    totals = LiveTotals(list, clock)
    found = []
    for pause_s in pauses_s:
        clock.now_s += pause_s
        before, now = await totals.growth()
        found.append(now.at_s - before.at_s)
    return found


async def test_whoever_comes_first_gets_no_growth() -> None:
    assert await spans([0, PERIOD_SECONDS / 2, PERIOD_SECONDS / 2]) == [0, 0, PERIOD_SECONDS]


async def test_callers_within_a_period_share_the_sums() -> None:
    assert await spans([0, PERIOD_SECONDS, 0, PERIOD_SECONDS / 2]) == [0, *[PERIOD_SECONDS] * 3]


async def test_the_growth_of_a_long_time_is_no_rate_of_now() -> None:
    long_s = (OLD_PERIODS + 1) * PERIOD_SECONDS
    assert await spans([0, PERIOD_SECONDS, long_s, PERIOD_SECONDS]) == [0, PERIOD_SECONDS, 0, PERIOD_SECONDS]
