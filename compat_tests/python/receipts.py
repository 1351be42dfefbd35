"""An independent ledger of what clients were promised, and the claims that a log must fulfil after a crash.

There is no client, clock or server in here: times come in, complaints come out. The claims, numbered as in the
complaints:
1. every stored message is one that was sent, unchanged;
2. a producer's messages are stored in the order of its sends, without gaps; after a crash it may begin again, but only
   at messages that it got no receipt for;
3. every receipt's message is stored, at the place that the receipt names;
4. a subscription delivers every stored message that was never acknowledged;
5. a subscription does not deliver what was acknowledged long enough before the crash;
6. a producer that survives the crash gets a receipt for every send.
"""

import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[int, int, int]
"""(ledger id, entry id, batch index or -1), which sorts as the log does."""

FILLER_BYTES = 8192
BODY_BYTES_MAX = 2000


@dataclass(slots=True)
class ProducerRecord:
    """What one producer sent and which receipts it got. Sequences count from 0, and receipts come in that order."""

    name: str
    sent: int = 0
    receipts: list[Place] = field(default_factory=list)
    receipted_before_crash: int = 0
    _filler: bytes = b""

    def __post_init__(self) -> None:
        self._filler = random.Random(self.name).randbytes(FILLER_BYTES)

    def body(self, sequence: int) -> bytes:
        """Returns the message's body, always the same for a sequence: who sent it, its number, and a checksum of the
        whole."""
        size = sequence * 37 % BODY_BYTES_MAX
        start = sequence * 101 % (FILLER_BYTES - BODY_BYTES_MAX)
        data = b"%s:%d:" % (self.name.encode(), sequence) + self._filler[start : start + size]
        return b"%08x:" % zlib.crc32(data) + data


@dataclass(frozen=True, slots=True)
class Stored:
    """One message as it was read back."""

    producer: str
    sequence: int
    place: Place


def parse(body: bytes, place: Place) -> Stored:
    """Parses a body. Raises ValueError when its own checksum is wrong."""
    checksum, _, data = body.partition(b":")
    if b"%08x" % zlib.crc32(data) != checksum:
        raise ValueError(f"(1) damaged message at {place}: {body[:60]!r}")
    producer, sequence, _ = data.split(b":", 2)
    return Stored(producer.decode(), int(sequence), place)


@dataclass(slots=True)
class AckRecord:
    """The acknowledgements of one subscription, each with the time at which the client made it."""

    individual: dict[Place, float] = field(default_factory=dict)
    cumulative: list[tuple[float, Place]] = field(default_factory=list)

    def covers(self, place: Place, until: float = float("inf")) -> bool:
        """Returns whether a message was acknowledged at the time `until` or before."""
        time = self.individual.get(place)
        if time is not None and time <= until:
            return True
        return any(made <= until and upto >= place for made, upto in reversed(self.cumulative))


def complaints_about_log(log: Sequence[Stored], producers: Mapping[str, ProducerRecord], crashes: int) -> list[str]:
    """Checks claims 1 to 3. `crashes` is the number of crashes that the producers survived."""
    found: list[str] = []
    by_producer: dict[str, list[Stored]] = {name: [] for name in producers}
    for stored in log:
        record = producers.get(stored.producer)
        if record is None or stored.sequence >= record.sent:
            found.append(f"(1) {stored} was never sent")
        else:
            by_producer[stored.producer].append(stored)
    places = [stored.place for stored in log]
    if places != sorted(set(places)):
        found.append("(2) the log's places do not ascend")
    for name, stored_by in by_producer.items():
        found += complaints_about_order(producers[name], stored_by, crashes)
        found += complaints_about_receipts(producers[name], stored_by)
    return found


def complaints_about_order(record: ProducerRecord, stored: Sequence[Stored], crashes: int) -> Iterable[str]:
    expected = rewinds = 0
    for each in stored:
        if each.sequence == expected:
            expected += 1
            continue
        if each.sequence > expected:
            yield f"(2) {record.name}: {expected} to {each.sequence - 1} missing before {each.place}"
        elif each.sequence < record.receipted_before_crash:
            yield f"(2) {record.name}: {each.sequence} stored again at {each.place} after its receipt"
        else:
            rewinds += 1
        expected = each.sequence + 1
    if rewinds > crashes:
        yield f"(2) {record.name}: began again {rewinds} times in {crashes} crashes"


def complaints_about_receipts(record: ProducerRecord, stored: Sequence[Stored]) -> Iterable[str]:
    places = {(each.sequence, each.place) for each in stored}
    lost = [sequence for sequence, place in enumerate(record.receipts) if (sequence, place) not in places]
    if lost:
        shown = ", ".join(f"{sequence} at {record.receipts[sequence]}" for sequence in lost[:5])
        yield f"(3) {record.name}: {len(lost)} of {len(record.receipts)} receipted messages lost: {shown} …"


def complaints_about_unanswered(producers: Iterable[ProducerRecord]) -> list[str]:
    """Checks claim 6 for producers that survived the crash and have flushed: every send has its receipt."""
    return [
        f"(6) {record.name}: {len(record.receipts)} receipts for {record.sent} sends"
        for record in producers
        if len(record.receipts) != record.sent
    ]


def complaints_about_subscription(
    name: str, delivered: set[Place], log: Sequence[Stored], acks: AckRecord, persisted_until: float
) -> list[str]:
    """Checks claims 4 and 5. An acknowledgement counts as stored when it was made at `persisted_until` or before."""
    found: list[str] = []
    missing = [each.place for each in log if each.place not in delivered and not acks.covers(each.place)]
    again = [each.place for each in log if each.place in delivered and acks.covers(each.place, persisted_until)]
    if missing:
        found.append(f"(4) {name}: {len(missing)} unacknowledged messages not delivered, first {missing[:5]}")
    if again:
        ages = [persisted_until - acks.individual[place] for place in again if place in acks.individual]
        oldest = f", the oldest {max(ages):.2f} s older than allowed" if ages else ""
        found.append(f"(5) {name}: {len(again)} persisted acknowledgements forgotten, first {again[:5]}{oldest}")
    return found
