"""Who may produce to a topic, by the access modes, and what a failing storage changes about that."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.publishing.producer_access_rules import WAITING_MAX, AccessVerdict, ProducerAccess
from magnetar.server.topics.publishing.publish_fence_rules import (
    HOLD_FIRST_SECONDS,
    HOLD_MAX_SECONDS,
    FenceState,
    PublishFence,
)
from pulsar_proto.errors import ProducerBusy, ProducerFenced, PulsarError
from pulsar_proto.pb import pulsar_api_pb2 as pb


def access_with(*, exclusive: bool = False, waiting: bool = False) -> ProducerAccess[str]:
    access: ProducerAccess[str] = ProducerAccess(None)
    access.exclusive_name = "owner" if exclusive else None
    if waiting:
        access.waiting.append("waiter")
    return access


@pytest.mark.parametrize(
    ("mode", "connected", "exclusive", "waiting", "expected"),
    [
        (pb.Shared, 0, False, False, AccessVerdict.GRANT),
        (pb.Shared, 3, False, False, AccessVerdict.GRANT),
        (pb.Shared, 1, True, False, ProducerBusy),
        (pb.Shared, 1, False, True, ProducerBusy),
        (pb.Exclusive, 0, False, False, AccessVerdict.GRANT),
        (pb.Exclusive, 1, False, False, ProducerFenced),
        (pb.Exclusive, 1, True, False, ProducerFenced),
        (pb.Exclusive, 0, False, True, ProducerFenced),
        (pb.ExclusiveWithFencing, 0, False, False, AccessVerdict.FENCE_OTHERS),
        (pb.ExclusiveWithFencing, 3, False, True, AccessVerdict.FENCE_OTHERS),
        (pb.ExclusiveWithFencing, 1, True, True, AccessVerdict.FENCE_OTHERS),
        (pb.WaitForExclusive, 0, False, False, AccessVerdict.GRANT),
        (pb.WaitForExclusive, 2, False, False, AccessVerdict.WAIT),
        (pb.WaitForExclusive, 1, True, True, AccessVerdict.WAIT),
        (pb.WaitForExclusive, 0, False, True, AccessVerdict.WAIT),
    ],
)
def test_access_is_granted_by_the_table(
    mode: int, connected: int, exclusive: bool, waiting: bool, expected: AccessVerdict | type[PulsarError]
) -> None:
    access = access_with(exclusive=exclusive, waiting=waiting)
    if isinstance(expected, AccessVerdict):
        assert access.judge(mode, connected, None) is expected
    else:
        with pytest.raises(expected):
            access.judge(mode, connected, None)


@pytest.mark.parametrize("mode", [pb.Exclusive, pb.ExclusiveWithFencing, pb.WaitForExclusive])
def test_an_older_epoch_was_replaced_meanwhile(mode: int) -> None:
    access: ProducerAccess[str] = ProducerAccess(5)
    with pytest.raises(ProducerFenced, match="Current epoch: 5, Producer epoch: 4"):
        access.judge(mode, 0, 4)
    assert access.judge(mode, 0, 5) is not AccessVerdict.WAIT


def test_the_epoch_starts_at_zero_and_grows_unless_the_client_brings_one() -> None:
    access: ProducerAccess[str] = ProducerAccess(None)
    assert access.next_epoch(None) == 0
    access.epoch = 0
    assert access.next_epoch(None) == 1
    assert access.next_epoch(7) == 7


def test_those_who_wait_are_bounded_and_served_in_order() -> None:
    access: ProducerAccess[str] = ProducerAccess(None)
    access.waiting.extend(str(number) for number in range(WAITING_MAX))
    with pytest.raises(ProducerBusy):
        access.judge(pb.WaitForExclusive, 1, None)
    assert access.next_waiting() == "0"
    assert access.judge(pb.WaitForExclusive, 1, None) is AccessVerdict.WAIT


def state_of(fence: PublishFence) -> FenceState:
    """Returns the state. A function, because mypy would otherwise take the state of an earlier assert for the present
    one."""
    return fence.state


def test_one_failure_is_a_hiccup_when_a_ledger_can_be_opened() -> None:
    fence = PublishFence()
    assert fence.failed("first")
    assert not fence.failed("second of the same time"), "producers are closed already"
    assert state_of(fence) is FenceState.DRAINING
    assert not fence.is_storage_down
    fence.drained()
    assert state_of(fence) is FenceState.TRYING
    fence.tried(None)
    assert state_of(fence) is FenceState.OPEN
    fence.succeeded()
    fence.failed("later")
    assert not fence.is_storage_down


def test_two_failures_without_a_success_mean_that_the_storage_is_down() -> None:
    fence = PublishFence()
    fence.failed("full")
    fence.drained()
    fence.tried(None)
    fence.failed("still full")
    assert fence.is_storage_down
    assert fence.reason == "still full"
    fence.drained()
    assert state_of(fence) is FenceState.HOLDING
    fence.held()
    assert state_of(fence) is FenceState.TRYING
    assert fence.is_storage_down, "refused until it is known"
    fence.tried(None)
    assert not fence.is_storage_down


def test_no_new_ledger_means_that_the_storage_is_down() -> None:
    fence = PublishFence()
    fence.failed("lost")
    fence.drained()
    holds = []
    for _ in range(8):
        fence.tried("no bookies")
        assert state_of(fence) is FenceState.HOLDING
        assert fence.is_storage_down
        holds.append(fence.hold_seconds)
        fence.held()
    assert holds[0] == HOLD_FIRST_SECONDS
    assert holds == sorted(holds)
    assert holds[-1] == HOLD_MAX_SECONDS
    fence.tried(None)
    assert state_of(fence) is FenceState.OPEN


EVENTS = st.sampled_from(["succeeded", "failed", "drained", "held", "tried", "not"])


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_the_fence_opens_only_by_a_try_that_worked(events: list[str]) -> None:
    fence = PublishFence()
    for event in events:
        before = fence.state
        if event == "failed":
            assert fence.failed("x") == (before is FenceState.OPEN)
        elif event in ("tried", "not"):
            fence.tried(None if event == "tried" else "x")
        else:
            getattr(fence, event)()
        if before is not FenceState.OPEN and fence.state is FenceState.OPEN:
            assert (event, before) == ("tried", FenceState.TRYING)
        assert 0 < fence.hold_seconds <= HOLD_MAX_SECONDS
        assert not (fence.state is FenceState.OPEN and fence.is_storage_down)
