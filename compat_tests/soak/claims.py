"""What a server must have kept after a soak: the claims of `receipts.py`, over many kills, consumers and partitions.

There is no client, clock or server in here: records come in, complaints come out. Further claims to those of
`receipts.py`:
7. a message for which the producer has a receipt is not stored again; with deduplication no message is stored twice;
8. a subscription gets only what is in the log;
9. a message's first delivery to a subscription comes after those of all earlier messages of its topic (Exclusive,
   Failover) or of its key (Key_Shared);
10. a message that was acknowledged long enough before a kill is not delivered after it;
11. a delayed message is not delivered before its time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from compat_tests.python.receipts import (
    AckRecord,
    Place,
    ProducerRecord,
    Stored,
    complaints_about_log,
)

ACKS_PERSISTED_WITHIN_SECONDS = 3.0
"""The server promises to store an acknowledgement within one second after the last change; the rest allows for the
client's grouping and a busy machine."""
RECONNECTED_WITHIN_SECONDS = 2.0
SHOWN = 4


class Order(StrEnum):
    NONE = "none"
    TOPIC = "topic"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without the server, in monotonic seconds. The unloading of a topic is one too, because it may lose what
    clients have on the way."""

    began: float
    ended: float
    is_kill: bool = True

    def may_lose_ack(self, made: float) -> bool:
        on_the_way = ACKS_PERSISTED_WITHIN_SECONDS if self.is_kill else RECONNECTED_WITHIN_SECONDS
        return self.began - on_the_way <= made <= self.ended + RECONNECTED_WITHIN_SECONDS


@dataclass(frozen=True, slots=True)
class Delivery:
    at: float
    what: Stored


@dataclass(slots=True)
class SubscriptionRecord:
    """What one subscription got on one topic or partition. Deliveries are in the order in which the applications got
    them."""

    name: str
    order: Order
    deliveries: list[Delivery] = field(default_factory=list)
    acks: AckRecord = field(default_factory=AckRecord)


def key_of(stored: Stored) -> str:
    """Returns the key that the producer's name holds. A producer of keyed messages counts each key's messages on their
    own, under the name `name/key`, so that the sequence of a key has no gaps."""
    return stored.producer.partition("/")[2]


def log_complaints(
    log: Sequence[Stored], producers: Mapping[str, ProducerRecord], outages: int, *, deduplicated: bool
) -> list[str]:
    """Checks claims 1 to 3 and 7. `outages` says how often producers may have begun again."""
    last_place = {(each.producer, each.sequence): each.place for each in log}
    resolved = {name: _with_places_of_duplicates(record, last_place) for name, record in producers.items()}
    found = complaints_about_log(log, resolved, 0 if deduplicated else outages)
    for name, record in resolved.items():
        again = [at for at, place in enumerate(record.receipts) if last_place.get((name, at), place) > place]
        if again:
            found.append(f"(7) {name}: {len(again)} messages stored again after their receipts, first {again[:SHOWN]}")
    return found


def _with_places_of_duplicates(record: ProducerRecord, places: Mapping[tuple[str, int], Place]) -> ProducerRecord:
    """Gives each duplicate's receipt a place. Such a receipt names none (-1), so it is satisfied by any place of the
    message."""
    nowhere = (-1, -1, -1)
    receipts = [
        places.get((record.name, at), nowhere) if place[0] < 0 else place for at, place in enumerate(record.receipts)
    ]
    return replace(record, receipts=receipts)


def subscription_complaints(
    record: SubscriptionRecord, log: Sequence[Stored], drained: set[Place], outages: Sequence[Outage]
) -> list[str]:
    """Checks claims 4, 5 and 8 to 10. `drained` are the messages that a fresh consumer got in the end, after the last
    outage."""
    found = list(_strangers(record, log))
    missing = [each.place for each in log if each.place not in drained and not record.acks.covers(each.place)]
    if missing:
        found.append(
            f"(4) {record.name}: {len(missing)} unacknowledged messages not delivered, first {missing[:SHOWN]}"
        )
    firm = firm_acks(record.acks, outages)
    again = [each.place for each in log if each.place in drained and firm.covers(each.place)]
    if again:
        found.append(f"(5) {record.name}: {len(again)} acknowledgements forgotten, first {again[:SHOWN]}")
    found += _given_again_after_kills(record, firm, [each for each in outages if each.is_kill])
    if record.order is not Order.NONE:
        found += _order_complaints(record, log)
    return found


def firm_acks(acks: AckRecord, outages: Sequence[Outage]) -> AckRecord:
    """Returns the acknowledgements that no outage may have lost."""

    def is_firm(made: float) -> bool:
        return not any(outage.may_lose_ack(made) for outage in outages)

    return AckRecord(
        {place: made for place, made in acks.individual.items() if is_firm(made)},
        _rising([(made, upto) for made, upto in acks.cumulative if is_firm(made)]),
    )


def _rising(cumulative: Iterable[tuple[float, Place]]) -> list[tuple[float, Place]]:
    """Leaves out acknowledgements that an earlier one covers."""
    rising: list[tuple[float, Place]] = []
    for made, upto in cumulative:
        if not rising or upto > rising[-1][1]:
            rising.append((made, upto))
    return rising


def _strangers(record: SubscriptionRecord, log: Sequence[Stored]) -> Iterable[str]:
    stored = {each.place: each for each in log}
    strange = [each.what for each in record.deliveries if stored.get(each.what.place) != each.what]
    if strange:
        yield f"(8) {record.name}: {len(strange)} deliveries are not in the log, first {strange[:SHOWN]}"


def _given_again_after_kills(record: SubscriptionRecord, firm: AckRecord, kills: Sequence[Outage]) -> Iterable[str]:
    for number, kill in enumerate(kills):
        until = kills[number + 1].began if number + 1 < len(kills) else float("inf")
        limit = kill.began - ACKS_PERSISTED_WITHIN_SECONDS
        again = [
            each.what.place
            for each in record.deliveries
            if kill.ended <= each.at < until and firm.covers(each.what.place, limit)
        ]
        if again:
            yield f"(10) {record.name}: {len(again)} came again after kill {number + 1}, first {again[:SHOWN]}"


def _order_complaints(record: SubscriptionRecord, log: Sequence[Stored]) -> Iterable[str]:
    """Complains of each first delivery that comes before that of an earlier message of the topic, or of the key."""
    group: Callable[[Stored], str] = key_of if record.order is Order.KEY else lambda stored: ""
    waiting: dict[str, list[Place]] = {}
    for each in reversed(log):
        waiting.setdefault(group(each), []).append(each.place)
    seen: set[Place] = set()
    too_early = []
    for delivery in record.deliveries:
        if delivery.what.place in seen:
            continue
        seen.add(delivery.what.place)
        left = waiting.get(group(delivery.what), [])
        while left and left[-1] in seen:
            left.pop()
        if left and left[-1] < delivery.what.place:
            too_early.append((delivery.what.place, left[-1]))
    if too_early:
        yield f"(9) {record.name}: {len(too_early)} delivered before an earlier one, first {too_early[:SHOWN]}"


def run_complaints(name: str, places: Sequence[Place], log: Sequence[Stored], first: int) -> list[str]:
    """Checks a reader that was not moved: it gets the log from index `first` on, without gaps and repetitions."""
    expected = [each.place for each in log[first : first + len(places)]]
    for at, (place, right) in enumerate(zip(places, expected, strict=False)):
        if place != right:
            return [f"(8) {name}: message {at} of a run of {len(places)} from {first} is {place}, not {right}"]
    return (
        [] if len(expected) == len(places) else [f"(8) {name}: {len(places)} messages from {first}, past the log's end"]
    )
