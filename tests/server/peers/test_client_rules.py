"""The rules of producers, readers and lookups, on random histories beside models that are plain lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.peers.lookup_walk_rules import REDIRECTS_MAX, Ask, LookupWalk, Owner
from magnetar.server.peers.peer_errors import PeerAnswerError
from magnetar.server.peers.read_window_rules import EARLIEST, MessagePlace, ReadWindow
from magnetar.server.peers.retry_rules import PAUSE_MAX_SECONDS, Retries
from magnetar.server.peers.send_queue_rules import Receipt, SendQueue, SendState
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb


class SendStory:
    """A producer's queue, and a broker that stores what arrives in order and forgets nothing."""

    def __init__(self) -> None:
        self.queue: SendQueue[int] = SendQueue(pending_max=5, pending_bytes_max=40)
        self.stored: list[int] = []
        self.on_the_way: list[int] = []
        self.receipts: list[int] = []
        self.settled: list[int] = []
        self.added = 0
        self.given_up: list[int] = []

    def attach(self) -> None:
        if self.queue.state is SendState.DETACHED:
            done, again = self.queue.attached(len(self.stored) - 1)
            self.settled += [each.token for each in done]
            self.on_the_way = [each.token for each in again]
            self.receipts = []

    def detach(self) -> None:
        self.queue.detached()
        self.on_the_way, self.receipts = [], []

    def add(self, size: int) -> None:
        if self.queue.has_begun and self.queue.has_room(size):
            made = self.queue.add(b"x" * size, float(self.added), self.added)
            assert made.sequence_id == self.added
            if self.queue.state is SendState.ATTACHED:
                self.on_the_way.append(self.added)
            self.added += 1

    def store(self) -> None:
        if self.on_the_way:
            token = self.on_the_way.pop(0)
            if token == len(self.stored):
                self.stored.append(token)
            self.receipts.append(token)

    def receive(self) -> None:
        if self.receipts:
            meaning, message = self.queue.receipt(self.receipts.pop(0))
            assert meaning is not Receipt.GAP
            if message is not None:
                self.settled.append(message.token)


@given(st.lists(st.one_of(st.sampled_from(["attach", "detach", "store", "receive"]), st.integers(0, 30))))
def test_a_producer_settles_each_message_once_in_order_and_only_when_it_is_stored(steps: list[str | int]) -> None:
    story = SendStory()
    for step in steps:
        if isinstance(step, int):
            story.add(step)
        else:
            getattr(story, step)()
        assert story.settled == list(range(len(story.settled)))
        assert len(story.settled) <= len(story.stored)
        assert len(story.queue) == story.added - len(story.settled) <= 5
    story.detach()
    story.attach()
    while story.on_the_way:
        story.store()
    while story.receipts:
        story.receive()
    assert story.settled == story.stored == list(range(story.added))


def test_a_name_that_was_used_before_goes_on_behind_its_last_message() -> None:
    queue: SendQueue[str] = SendQueue()
    with pytest.raises(AssertionError):
        queue.add(b"", 0.0, "too early")
    queue.attached(41)
    assert queue.add(b"", 0.0, "first").sequence_id == 42
    assert queue.receipt(40) == (Receipt.KNOWN, None)
    assert queue.receipt(43) == (Receipt.GAP, None)


def test_an_expired_message_is_not_sent_again() -> None:
    queue: SendQueue[str] = SendQueue()
    queue.attached(-1)
    queue.add(b"a", 1.0, "a")
    queue.add(b"b", 2.0, "b")
    queue.detached()
    assert [each.token for each in queue.expired(1.5)] == ["a"]
    assert [each.token for each in queue.attached(-1)[1]] == ["b"]
    assert queue.receipt(0) == (Receipt.KNOWN, None)


def test_a_refusal_takes_only_the_oldest_message_away() -> None:
    queue: SendQueue[str] = SendQueue()
    queue.attached(-1)
    for token in ("a", "b"):
        queue.add(b"", 9.0, token)
    assert queue.refused(1) is None
    refused = queue.refused(0)
    assert refused is not None
    assert refused.token == "a"
    assert queue.receipt(1)[0] is Receipt.SETTLED
    assert queue.refused(2) is None


def test_bytes_bound_the_queue_but_one_message_always_fits() -> None:
    queue: SendQueue[str] = SendQueue(pending_bytes_max=10)
    queue.attached(-1)
    assert queue.has_room(1000)
    queue.add(b"x" * 6, 1.0, "a")
    assert queue.has_room(4)
    assert not queue.has_room(5)
    queue.add(b"x" * 4, 2.0, "b")
    queue.receipt(0)
    assert queue.has_room(6)
    assert not queue.has_room(7)
    queue.expired(2.0)
    assert queue.has_room(1000)


def test_an_event_that_makes_no_sense_changes_nothing() -> None:
    queue: SendQueue[str] = SendQueue()
    queue.attached(-1)
    with pytest.raises(AssertionError):
        queue.attached(5)
    assert queue.next_sequence_id == 0
    queue.closed()
    with pytest.raises(AssertionError):
        queue.add(b"", 0.0, "late")


@given(
    sizes=st.lists(st.integers(1, 4), max_size=12),
    start=st.integers(-1, 20),
    cuts=st.lists(st.integers(0, 40), max_size=8),
    takes=st.lists(st.booleans(), max_size=40),
)
def test_a_reader_takes_each_message_once_in_order_over_any_reconnects(
    sizes: list[int], start: int, cuts: list[int], takes: list[bool]
) -> None:
    """Entries of `sizes` messages; the connection is cut at the steps in `cuts`; between the entries the reader takes
    some of what it has received."""
    places = [MessagePlace(3, entry, index) for entry, size in enumerate(sizes) for index in range(size)]
    begin = EARLIEST if start < 0 or not places else places[start % len(places)]
    window = ReadWindow(begin, permits=4)
    taken: list[MessagePlace] = []
    waiting: list[MessagePlace] = []
    next_entry, step = len(sizes), 0

    def take_all() -> None:
        while waiting:
            entry = waiting.pop(0)
            for index in range(sizes[entry.entry_id]):
                place = MessagePlace(3, entry.entry_id, index)
                if window.take(place):
                    taken.append(place)
            window.passed(entry)

    window.attached(0)
    next_entry = max(0, window.start.entry_id)
    while next_entry < len(sizes):
        if step in cuts:
            window.detached()
            window.attached(sum(sizes[entry.entry_id] for entry in waiting))
            next_entry = max(0, window.start.entry_id)
        entry = MessagePlace(3, next_entry)
        if window.received(entry, sizes[next_entry]):
            waiting.append(entry)
        next_entry += 1
        if step < len(takes) and takes[step]:
            take_all()
        step += 1
    take_all()
    assert taken == [place for place in places if place > begin]
    if places:
        assert window.is_at_end(places[-1])


def test_the_end_of_a_topic() -> None:
    window = ReadWindow(EARLIEST)
    assert window.is_at_end(MessagePlace(-1, -1))
    assert window.is_at_end(MessagePlace(5, -1))
    assert not window.is_at_end(MessagePlace(5, 0))
    window.attached(0)
    window.received(MessagePlace(5, 0), 3)
    window.take(MessagePlace(5, 0, 1))
    assert not window.is_at_end(MessagePlace(5, 0, 2))
    window.passed(MessagePlace(5, 0))
    assert window.is_at_end(MessagePlace(5, 0, 2))
    assert not window.is_at_end(MessagePlace(6, 0))


def test_permits_are_renewed_when_half_of_them_are_used_and_never_exceed_the_window() -> None:
    window = ReadWindow(EARLIEST, permits=10)
    assert window.attached(0) == 10
    granted, waiting = 10, 0
    for entry in range(100):
        assert window.received(MessagePlace(1, entry), 1)
        granted, waiting = granted - 1, waiting + 1
        if entry % 3 == 2:
            waiting = 0
        granted += window.more_permits(waiting)
        assert 0 < granted <= 10
        assert granted + waiting <= 10


def _response(**fields: object) -> pb.CommandLookupTopicResponse:
    return pb.CommandLookupTopicResponse(request_id=1, **fields)  # type: ignore[arg-type]


def test_a_lookup_follows_redirects_as_they_say_and_ends() -> None:
    walk = LookupWalk("pulsar://a:1", uses_tls=False)
    assert walk.first == Ask("pulsar://a:1", False)
    redirect = _response(
        response=pb.CommandLookupTopicResponse.Redirect, brokerServiceUrl="pulsar://b:1", authoritative=True
    )
    for _ in range(REDIRECTS_MAX):
        assert walk.answered(redirect) == Ask("pulsar://b:1", True)
    with pytest.raises(PeerAnswerError, match="more than 20"):
        walk.answered(redirect)


def test_what_a_lookup_ends_with() -> None:
    connect = pb.CommandLookupTopicResponse.Connect
    urls = {"brokerServiceUrl": "pulsar://b:1", "brokerServiceUrlTls": "pulsar+ssl://b:2"}
    assert LookupWalk("x", uses_tls=False).answered(_response(response=connect, **urls)) == Owner("pulsar://b:1")
    assert LookupWalk("x", uses_tls=True).answered(_response(response=connect, **urls)) == Owner("pulsar+ssl://b:2")
    through = _response(response=connect, proxy_through_service_url=True, **urls)
    assert LookupWalk("x", uses_tls=False).answered(through) == Owner("x", "pulsar://b:1")
    with pytest.raises(PeerAnswerError, match="TLS"):
        LookupWalk("x", uses_tls=True).answered(_response(response=connect, brokerServiceUrl="pulsar://b:1"))
    failed = _response(response=pb.CommandLookupTopicResponse.Failed, error=pb.ServiceNotReady, message="unloaded")
    with pytest.raises(ServiceNotReady, match="unloaded"):
        LookupWalk("x", uses_tls=False).answered(failed)


@given(st.lists(st.floats(0, 1), min_size=2))
def test_the_first_attempt_is_made_at_once_and_pauses_grow_to_a_second(chances: list[float]) -> None:
    retries = Retries()
    assert retries.pause(chances[0]) == 0
    pauses = [retries.pause(chance) for chance in chances[1:]]
    assert all(0 < pause <= PAUSE_MAX_SECONDS for pause in pauses)
    retries.succeeded()
    assert retries.pause(1.0) == 0
