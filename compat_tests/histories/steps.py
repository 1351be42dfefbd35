"""Histories: random steps of one client, drawn from a seed.

A step names messages, transactions and subscriptions by numbers, so that a history can be told to any broker. The
generator follows what is visible, because a client can only acknowledge what it has got: `Known` has the rules. At the
end of a history all its transactions have ended.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

LONG_MS = 600_000
SHORT_MS = 1_500
STEPS = (12, 40)


class Type(Enum):
    """The types of subscriptions, with their numbers on the wire (CommandSubscribe.SubType)."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    number: int
    topic: int
    type: Type

    @property
    def name(self) -> str:
        return f"s{self.number}-{self.type.name.lower()}"

    @property
    def takes_cumulative(self) -> bool:
        return self.type in (Type.EXCLUSIVE, Type.FAILOVER)


@dataclass(frozen=True, slots=True)
class Begin:
    txn: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Join:
    """A topic, or a subscription, becomes part of a transaction."""

    txn: int
    topic: int
    subscription: Subscription | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Publishes an entry: a batch if `batch` is more than 1."""

    entry: int
    topic: int
    batch: int
    txn: int | None


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledges entries; of a single one only the messages `indexes`, unless there are none."""

    subscription: Subscription
    entries: tuple[int, ...]
    indexes: tuple[int, ...]
    batch: int
    cumulative: bool
    txn: int | None


@dataclass(frozen=True, slots=True)
class End:
    txn: int
    commit: bool


@dataclass(frozen=True, slots=True)
class TimeOut:
    """Waits until the coordinator has aborted a transaction of a short life."""

    txn: int


@dataclass(frozen=True, slots=True)
class Seek:
    """Moves a subscription to an entry, or to the beginning of its topic."""

    subscription: Subscription
    entry: int | None


@dataclass(frozen=True, slots=True)
class Redeliver:
    subscription: Subscription
    entries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """The consumer of a subscription goes, and another one comes. `unsubscribes` deletes the subscription between."""

    subscription: Subscription
    unsubscribes: bool


@dataclass(frozen=True, slots=True)
class Look:
    """A new reader reads a topic to its present end."""

    topic: int


Step = Begin | Join | Send | Ack | End | TimeOut | Seek | Redeliver | Leave | Look


@dataclass(slots=True)
class History:
    seed: int
    topics: int
    subscriptions: list[Subscription]
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    number: int
    topic: int
    batch: int
    txn: int | None


class Known:
    """What the client knows of its transactions and entries."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.open: dict[int, set[object]] = {}
        """The open transactions with what has become part of each: topics, and subscriptions."""
        self.short: set[int] = set()
        self.ended: list[int] = []
        self.aborted: set[int] = set()
        self.cumulative_of: dict[Subscription, int] = {}
        """The open transactions that have acknowledged cumulatively."""
        self.individual_of: dict[Subscription, set[int]] = {}

    def visible(self, topic: int) -> list[Entry]:
        """Returns what subscriptions of a topic give: what stands before all open transactions and was not aborted."""
        found = []
        for each in self.entries:
            if each.topic == topic:
                if each.txn in self.open:
                    break
                if each.txn not in self.aborted:
                    found.append(each)
        return found

    def end(self, txn: int, commit: bool) -> None:
        del self.open[txn]
        self.short.discard(txn)
        self.ended.append(txn)
        if not commit:
            self.aborted.add(txn)
        self.cumulative_of = {key: value for key, value in self.cumulative_of.items() if value != txn}
        for holders in self.individual_of.values():
            holders.discard(txn)


class Author:
    """Draws the steps of one history."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        types = [Type.EXCLUSIVE, Type.SHARED, self._random.choice((Type.FAILOVER, Type.KEY_SHARED))]
        subscriptions = [Subscription(number, number % 2, each) for number, each in enumerate(types)]
        self._history = History(seed, 2, subscriptions)
        self._known = Known()
        self._txns = 0

    def write(self) -> History:
        self._add(self._send(None))
        for _ in range(self._random.randint(*STEPS)):
            draw = self._random.choices(
                (self._begin, self._publish, self._acknowledge, self._end, self._wander, self._err),
                (15, 30, 30, 14, 10, 1),
            )[0]
            for step in draw():
                self._add(step)
        for txn in list(self._known.open):
            self._add(self._finish(txn))
        return self._history

    def _add(self, step: Step) -> None:
        self._history.steps.append(step)

    def _begin(self) -> Iterator[Step]:
        if len(self._known.open) < 4:
            is_short = self._random.random() < 0.03
            txn = self._txns
            self._txns += 1
            self._known.open[txn] = set()
            if is_short:
                self._known.short.add(txn)
            yield Begin(txn, SHORT_MS if is_short else LONG_MS)

    def _publish(self) -> Iterator[Step]:
        txn = self._some_txn(0.6)
        step = self._send(txn)
        if txn is not None:
            yield from self._join(txn, step.topic, None)
        yield step

    def _send(self, txn: int | None) -> Send:
        topic = self._random.randrange(self._history.topics)
        batch = self._random.choice((1, 1, 3))
        made = Entry(len(self._known.entries), topic, batch, txn)
        self._known.entries.append(made)
        return Send(made.number, topic, batch, txn)

    def _some_txn(self, odds: float) -> int | None:
        return (
            self._random.choice(list(self._known.open)) if self._known.open and self._random.random() < odds else None
        )

    def _join(self, txn: int, topic: int, subscription: Subscription | None) -> Iterator[Step]:
        part: object = topic if subscription is None else subscription
        if part not in self._known.open[txn]:
            self._known.open[txn].add(part)
            yield Join(txn, topic, subscription)

    def _acknowledge(self) -> Iterator[Step]:
        subscription = self._random.choice(self._history.subscriptions)
        visible = self._known.visible(subscription.topic)
        if not visible:
            return
        txn = self._some_txn(0.7)
        cumulative = subscription.takes_cumulative and self._random.random() < 0.4
        if txn is not None:
            cumulative = self._allowed(subscription, txn, cumulative)
            yield from self._join(txn, subscription.topic, subscription)
        chosen = self._random.sample(visible, 1 if cumulative else self._random.randint(1, min(3, len(visible))))
        batch = 1
        indexes: tuple[int, ...] = ()
        if len(chosen) == 1 and chosen[0].batch > 1:
            batch = chosen[0].batch
            indexes = tuple(range(self._random.randint(0, batch - 1)))
            if not cumulative:
                indexes = tuple(sorted(self._random.sample(range(batch), len(indexes))))
        yield Ack(subscription, tuple(each.number for each in chosen), indexes, batch, cumulative, txn)

    def _allowed(self, subscription: Subscription, txn: int, cumulative: bool) -> bool:
        """Returns whether the acknowledgement is cumulative. A subscription has either individual acknowledgements of
        open transactions or one cumulative one, because Apache's broker loses the individual ones otherwise."""
        individual = self._known.individual_of.setdefault(subscription, set())
        if cumulative and not individual:
            self._known.cumulative_of.setdefault(subscription, txn)
            return True
        if subscription in self._known.cumulative_of:
            return True
        individual.add(txn)
        return False

    def _end(self) -> Iterator[Step]:
        txn = self._some_txn(1)
        if txn is not None:
            yield self._finish(txn)

    def _finish(self, txn: int) -> Step:
        if txn in self._known.short:
            self._known.end(txn, False)
            return TimeOut(txn)
        commit = self._random.random() < 0.6
        self._known.end(txn, commit)
        return End(txn, commit)

    def _wander(self) -> Iterator[Step]:
        subscription = self._random.choice(self._history.subscriptions)
        visible = self._known.visible(subscription.topic)
        dice = self._random.randrange(6)
        if dice == 0:
            yield Seek(subscription, self._random.choice(visible).number if visible else None)
        elif dice == 1:
            some = self._random.sample(visible, self._random.randint(0, min(2, len(visible))))
            yield Redeliver(subscription, tuple(each.number for each in some))
        elif dice == 2:
            yield Leave(subscription, self._random.random() < 0.3)
        else:
            yield Look(subscription.topic)

    def _err(self) -> Iterator[Step]:
        """A mistake: a transaction that has ended is used again."""
        if not self._known.ended:
            return
        txn = self._random.choice(self._known.ended)
        subscription = self._random.choice(self._history.subscriptions)
        yield self._random.choice(
            (End(txn, True), End(txn, False), Join(txn, 0), Join(txn, subscription.topic, subscription))
        )
