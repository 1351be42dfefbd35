"""How the outcomes of a call on several partitions become one answer."""

import pytest

from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.over_partitions import partition_target
from magnetar.server.admin.partition_outcome_rules import Outcome
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Refusal


def refused(partition: int, status: int) -> Outcome:
    return Outcome(partition, refusal=Refusal(status, f"partition {partition}"))


def status_of(answer: object) -> int:
    with pytest.raises(Refusal) as refusal:
        answer()  # type: ignore[operator]
    return refusal.value.status


DONE = Outcome(0)


def test_what_every_partition_has_done_is_done() -> None:
    assert rules.done([DONE, Outcome(1)]) is NO_CONTENT
    assert rules.shown([DONE]) is EMPTY
    assert status_of(lambda: rules.done([DONE, refused(1, 404), refused(2, 500)])) == 404


def test_what_some_partitions_lack_is_gone_and_what_all_lack_is_missing() -> None:
    assert rules.gone([refused(0, 404), Outcome(1)]) is NO_CONTENT
    assert status_of(lambda: rules.gone([refused(0, 404), refused(1, 404)])) == 404
    assert status_of(lambda: rules.gone([refused(0, 404), refused(1, 412)])) == 412
    assert rules.gone([]) is NO_CONTENT


def test_what_some_partitions_have_already_is_made_unless_all_have_it() -> None:
    assert rules.made([refused(0, 409), Outcome(1)]) is NO_CONTENT
    assert status_of(lambda: rules.made([refused(0, 409), refused(1, 409)])) == 409
    assert rules.started([refused(0, 404), refused(1, 409), Outcome(2)]) is NO_CONTENT
    assert status_of(lambda: rules.started([refused(0, 409), refused(1, 404)])) == 409


def test_answers_are_joined() -> None:
    assert rules.merged([Outcome(0, {"a": 1, "b": 1}), Outcome(1, {"b": 2}), Outcome(2)]) == {"a": 1, "b": 2}
    assert rules.listed([Outcome(0, ["b", "a"]), Outcome(1, ["a"]), Outcome(2)]) == ["a", "b"]
    assert rules.by_index([Outcome(0, "x"), Outcome(4, "y")]) == {"0": "x", "4": "y"}
    assert rules.succeeded([refused(0, 503), Outcome(1)]) == [Outcome(1)]


def test_a_call_on_a_partition_is_the_same_call() -> None:
    path = "/admin/v2/persistent/t/n/a%2Fb/subscription/s%20x/skip_all"
    assert partition_target(f"{path}?x=1&authoritative=true", 7) == (
        "/admin/v2/persistent/t/n/a%2Fb-partition-7/subscription/s%20x/skip_all?x=1"
    )
    assert partition_target("/admin/v2/persistent/t/n/a/partitioned-stats/", 0, "stats") == (
        "/admin/v2/persistent/t/n/a-partition-0/stats"
    )
