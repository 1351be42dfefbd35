"""How topics that do not answer are tried again, and what the log says about them."""

from itertools import pairwise

import pytest

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.endings import RETRY_SECONDS_MAX, retry_seconds
from magnetar.server.transactions.unreached import LINES_AT_ONCE
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import TxnId
from tests.server.topics.scene import in_virtual_time, pass_time
from tests.server.transactions.scene import TOPIC, RememberingParticipants


def test_transactions_that_fail_together_are_tried_again_one_after_the_other() -> None:
    for attempts, longest in enumerate((1, 2, 4, 8, 16, 32, 32)):
        times = sorted(retry_seconds(attempts, least) for least in range(1_000))
        assert longest / 2 <= times[0] < 0.51 * longest
        assert 0.99 * longest < times[-1] <= longest
        gaps = [after - before for before, after in pairwise(times)]
        assert max(gaps) < longest / 500, "many wait for about the same time"
    assert retry_seconds(10**6, 0) <= RETRY_SECONDS_MAX


async def fail(calls: EndCalls, topic: str, least: int) -> None:
    with pytest.raises(ServiceNotReady):
        await calls.on_partition(topic, TxnId(0, least), True, 0)


@in_virtual_time
async def test_the_log_has_one_line_for_each_topic_however_many_transactions_cannot_end_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    participants = RememberingParticipants()
    calls = EndCalls(participants, TransactionSettings())
    participants.away = {TOPIC, f"{TOPIC} s"}
    for least in range(50):
        await fail(calls, TOPIC, least)
        await fail(calls, TOPIC, least)
    with pytest.raises(ServiceNotReady):
        await calls.on_subscription(TOPIC, "s", TxnId(0, 1), True, 0)
    assert caplog.messages == []
    await pass_time(1)
    assert caplog.messages == [
        f"{TOPIC}: 50 transactions could not end there yet, tried again: {TOPIC} is away",
        f"{TOPIC} / s: 1 transactions could not end there yet, tried again: {TOPIC} s is away",
    ]
    calls.close()


@in_virtual_time
async def test_the_log_names_a_few_of_many_topics_and_gets_fewer_lines_the_longer_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    participants = RememberingParticipants()
    calls = EndCalls(participants, TransactionSettings())
    participants.away = {f"{TOPIC}{number}" for number in range(LINES_AT_ONCE + 5)}
    for topic in sorted(participants.away):
        await fail(calls, topic, 0)
    await pass_time(1)
    assert len(caplog.messages) == LINES_AT_ONCE + 1
    assert caplog.messages[-1] == "the same holds for 5 other topics and subscriptions"
    caplog.clear()
    for _ in range(100):  # an attempt a second
        await fail(calls, f"{TOPIC}0", 0)
        await pass_time(1)
    assert len(caplog.messages) == 5  # after 2, 4, 8, 16 and 32 s; the next would come after 60 s
    caplog.clear()
    await pass_time(2 * 60)
    assert caplog.messages[-1] == "the ends of transactions reach all topics and subscriptions again"
    calls.close()
