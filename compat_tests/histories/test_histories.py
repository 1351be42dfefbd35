"""Our broker makes of random histories of transactions what Apache's has made of them. `make histories` tells new
histories to both."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.histories import recorded
from compat_tests.histories.differences import KNOWN, MOVED_BACK, SET_ANEW, UNKNOWN, compare
from compat_tests.histories.replay import CLOSED, UNANSWERED, Answer, Replay, Teller
from compat_tests.histories.steps import Ack, Author, Begin, End, History, Seek, Send, Subscription, TimeOut, Type
from compat_tests.products import Magnetar
from compat_tests.wire import ACK_RESPONSE

SHARED = Subscription(0, 0, Type.SHARED)
REFUSED = Answer(ACK_RESPONSE, 23)
TAKEN = Answer(ACK_RESPONSE, None)


@pytest.fixture
def teller(tmp_path: Path) -> Iterator[Teller]:
    keys = {"transactionCoordinatorEnabled": "true", "acknowledgmentAtBatchIndexLevelEnabled": "true"}
    with Server(tmp_path, product=Magnetar(), settings=keys) as server:
        yield Teller(server.broker_port, server.web_url)
        server.assert_no_errors()


@pytest.mark.slow
def test_our_broker_answers_and_shows_what_apaches_does(teller: Teller) -> None:
    replays = recorded.read()
    assert len(replays) >= 20
    for seed, replay in replays.items():
        history = Author(seed).write()
        found = compare(history, replay, teller.tell(history))
        assert found is None or found.reason != UNKNOWN, f"seed {seed}: {found}"


def test_a_seed_is_one_history_at_whose_end_all_transactions_have_ended() -> None:
    for seed in range(50):
        history = Author(seed).write()
        assert history == Author(seed).write()
        begun = [step.txn for step in history.steps if isinstance(step, Begin)]
        ended = {step.txn for step in history.steps if isinstance(step, End | TimeOut)}
        assert ended == set(begun)


def ack(entries: tuple[int, ...], indexes: tuple[int, ...], txn: int | None) -> Ack:
    return Ack(SHARED, entries, indexes, 3, False, txn)


HISTORY = History(
    0,
    1,
    [SHARED],
    [Send(0, 0, 3, None), ack((0,), (1,), None), ack((0,), (), 0), ack((0,), (2,), None), ack((0,), (2,), 1)],
)
WHOLE, PART, PART_IN_TXN = 2, 3, 4
ALIKE = Replay(dict.fromkeys(range(1, 5), TAKEN), [["m0.0"]], {"topic 0": ["m0.0"]})


@pytest.mark.parametrize(
    "ours",
    [
        replace(ALIKE, answers={**ALIKE.answers, 1: REFUSED}),
        replace(ALIKE, answers={**ALIKE.answers, WHOLE: CLOSED}),
        replace(ALIKE, looks=[[]]),
        replace(ALIKE, views={"topic 0": ["m0.0", "m0.1"]}),
    ],
    ids=["an answer", "the end of the connection", "a reader in the middle", "a view at the end"],
)
def test_what_differs_is_told(ours: Replay) -> None:
    assert compare(HISTORY, ALIKE, ALIKE) is None
    found = compare(HISTORY, ALIKE, ours)
    assert found is not None
    assert found.reason == UNKNOWN


@pytest.mark.parametrize(
    ("place", "apaches"),
    [(WHOLE, REFUSED), (PART, CLOSED), (PART_IN_TXN, UNANSWERED)],
    ids=["refused", "closed", "unanswered"],
)
def test_what_apaches_broker_does_badly_is_known_by_name(place: int, apaches: Answer) -> None:
    theirs = replace(ALIKE, answers={**ALIKE.answers, place: apaches})
    found = compare(HISTORY, theirs, ALIKE)
    assert found is not None
    assert found.reason in KNOWN


def test_what_a_move_back_does_not_show_at_apaches_broker_is_known_by_name() -> None:
    moved = replace(HISTORY, steps=[*HISTORY.steps, Seek(SHARED, 0)])
    theirs, ours = (replace(ALIKE, views={SHARED.name: view}) for view in (["m0.1", "end"], ["m0.0", "m0.1", "end"]))
    for history, reason in ((moved, MOVED_BACK), (HISTORY, UNKNOWN)):
        found = compare(history, theirs, ours)
        assert found is not None
        assert found.reason == reason
    lost_by_ours = compare(moved, ours, theirs)
    assert lost_by_ours is not None
    assert lost_by_ours.reason == UNKNOWN


def test_what_a_cumulative_acknowledgement_brings_back_at_apaches_broker_is_known_by_name() -> None:
    cumulative = replace(HISTORY, steps=[*HISTORY.steps, Ack(SHARED, (0,), (0,), 3, True, 1)])
    theirs, ours = (replace(ALIKE, views={SHARED.name: view}) for view in (["m0.2", "end"], ["end"]))
    for history, reason in ((cumulative, SET_ANEW), (HISTORY, UNKNOWN)):
        found = compare(history, theirs, ours)
        assert found is not None
        assert found.reason == reason
