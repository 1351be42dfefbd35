"""What watches hear of the server's events, and of the time without a link."""

import pytest

from magnetar.metadata.store import EventType, RecordEvent
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.watch_rules import ZkWatches

CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED
CHILDREN = EventType.CHILDREN_CHANGED
BOUND = 100


def stat(czxid: int, mzxid: int = 0, pzxid: int = 0) -> ZkStat:
    return ZkStat(czxid, max(czxid, mzxid), 0, 0, 0, 0, 0, 0, 0, 0, max(czxid, pzxid))


def test_a_recursive_watch_hears_of_lists_that_changed_though_the_server_does_not_say() -> None:
    watches = ZkWatches()
    below: list[RecordEvent] = []
    exact: list[RecordEvent] = []
    watches.add("/a", below.append, True)
    watches.add("/a", exact.append, False)
    for event in (
        RecordEvent(CREATED, "/a"),
        RecordEvent(CREATED, "/a/b"),
        RecordEvent(CHILDREN, "/a"),
        RecordEvent(DELETED, "/a/b"),
    ):
        watches.happened(event)
    assert below == [(CREATED, "/a"), (CREATED, "/a/b"), (CHILDREN, "/a"), (DELETED, "/a/b"), (CHILDREN, "/a")]
    assert exact == [(CREATED, "/a"), (CHILDREN, "/a")]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ([], stat(50), []),
        ([], stat(100), []),
        ([], stat(50, mzxid=100, pzxid=100), []),
        ([], stat(50, mzxid=101), [CHANGED]),
        ([], stat(50, pzxid=101), [CHILDREN]),
        ([], stat(50, mzxid=101, pzxid=102), [CHANGED, CHILDREN]),
        ([], stat(101), [CREATED]),
        ([], stat(101, mzxid=102), [CREATED, CHANGED]),
        ([], None, [DELETED]),
        ([DELETED], None, []),
        ([CREATED], None, [DELETED]),
        ([CREATED], stat(101), [DELETED, CREATED]),
        ([DELETED], stat(101, pzxid=103), [CREATED, CHILDREN]),
    ],
)
def test_what_was_missed_is_told_in_its_shortest_form(
    before: list[EventType], now: ZkStat | None, told: list[EventType]
) -> None:
    watches = ZkWatches()
    events: list[RecordEvent] = []
    watches.add("/a", events.append, False)
    for kind in before:
        watches.happened(RecordEvent(kind, "/a"))
    events.clear()
    watches.found("/a", now, BOUND)
    assert events == [(kind, "/a") for kind in told]
    events.clear()
    watches.found("/a", now, 1000)
    assert events == []


def test_only_the_watch_itself_hears_that_anything_may_have_changed() -> None:
    watches = ZkWatches()
    upper: list[RecordEvent] = []
    lower: list[RecordEvent] = []
    watches.add("/", upper.append, True)
    watches.add("/a", lower.append, True)
    watches.overlooked("/a")
    assert (upper, lower) == ([], [(CHANGED, "/a")])


def test_cancelled_watches_leave_nothing_behind() -> None:
    watches = ZkWatches()
    events: list[RecordEvent] = []
    cancels = [watches.add("/a", events.append, recursive) for recursive in (False, False, True)]
    assert watches.modes("/a") == [False, True]
    watches.happened(RecordEvent(CREATED, "/a"))
    cancels[0]()
    cancels[0]()
    assert watches.modes("/a") == [False, True]
    cancels[1]()
    assert watches.modes("/a") == [True]
    cancels[2]()
    assert not watches.modes("/a")
    assert watches.exact_paths == watches.recursive_paths == []
    assert not watches._there
    events.clear()
    watches.happened(RecordEvent(CHANGED, "/a"))
    watches.found("/a", None, BOUND)
    watches.overlooked("/a")
    assert events == []
    assert not watches._there
