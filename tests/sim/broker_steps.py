"""The steps of a history of brokers: what clients and administrators ask for, and what goes wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from magnetar.server.namespaces.bundle_name import BundleName
from tests.sim.sim_broker import SimBroker
from tests.storage.ledger.fake_bookie import LinkState

if TYPE_CHECKING:
    from tests.sim.broker_history import BrokerHistory

STATES = list(LinkState)
Step = tuple[object, ...]


class Steps:
    """Draws and does the steps of one history. Each history favours some kinds, because a fault is found sooner when
    others do not hide it."""

    def __init__(self, history: "BrokerHistory") -> None:
        self._history = history
        self._rng = rng = history.rng
        self._kinds: dict[str, tuple[float, Callable[[], Awaitable[Step]]]] = {
            "publish": (3.0, self._publish),
            "ack": (2.0, self._ack),
            "outage": (1.0, self._outage),
            "blink": (0.7, self._blink),
            "pause": (1.0, self._pause),
            "zombie": (1.0, self._zombie),
            "kill": (0.7, self._kill),
            "restart": (1.0, self._restart),
            "stop": (0.5, self._stop),
            "bookie link": (0.7, self._bookie_link),
            "bookie power": (0.3, self._bookie_power),
            "client cut": (0.7, self._client_cut),
            "unload": (1.0, self._unload),
            "split": (0.5, self._split),
            "calm": (0.4, self._calm),
        }
        self._weights = [
            most * rng.random() ** 3 + (1.0 if kind in ("publish", "ack", "restart") else 0)
            for kind, (most, _) in self._kinds.items()
        ]

    async def one(self) -> Step:
        kind = self._rng.choices(list(self._kinds), self._weights)[0]
        return kind, *await self._kinds[kind][1]()

    def _broker(self) -> SimBroker:
        return self._history.brokers[self._rng.choice(list(self._history.brokers))]

    # --- what clients and administrators do --------------------------------------------------------------------------

    async def _publish(self) -> Step:
        producer = self._rng.choice(self._history.producers)
        producer.publish(self._rng.choice((1, 1, 3, 8)))
        return producer.name, producer.published

    async def _ack(self) -> Step:
        consumer = self._rng.choice(self._history.consumers)
        self._history.spawn(consumer.ack(self._rng.choice((0.1, 0.5, 1.0))))
        return (consumer.name,)

    async def _unload(self) -> Step:
        broker = self._broker()
        if not broker.runs or not (owned := self._owned(broker)):
            return ()
        bundle = self._rng.choice(owned)
        broker.process.spawn(self._history.attempt(broker.broker.moves.unload(bundle)))
        return broker.label, str(bundle)

    async def _split(self) -> Step:
        broker = self._broker()
        if not broker.runs or not (owned := self._owned(broker)):
            return ()
        bundle = self._rng.choice(owned)
        unload = self._rng.random() < 0.5
        split = broker.broker.moves.split(bundle, "range_equally_divide", unload=unload)
        broker.process.spawn(self._history.attempt(split))
        return broker.label, str(bundle)

    @staticmethod
    def _owned(broker: SimBroker) -> list[BundleName]:
        return [bundle for bundle in broker.ownership.owned_bundles() if bundle.namespace.startswith("acme/")]

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    async def _outage(self) -> Step:
        """ZooKeeper and a broker do not hear each other. The session may end before or after the broker notices."""
        broker = self._broker()
        if not broker.is_up or broker.outage:
            return ()
        ends = self._rng.random() < 0.6
        self._history.spawn(self._be_cut_off(broker, ends))
        return broker.label, ends

    async def _be_cut_off(self, broker: SimBroker, ends: bool) -> None:
        rng, store = self._rng, broker.store
        broker.outage = True
        store.is_silent = True
        early = rng.random() < 0.5
        await asyncio.sleep(rng.choice((0.0, 0.05, 0.5, 2.0)))
        if ends and early:
            await store.end_session()
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.5, 2.0)))
        broker.process.run_soon(store.cut)
        await asyncio.sleep(rng.choice((0.0, 0.05, 0.5, 2.0)))
        if ends and not early:
            await store.end_session()
            await asyncio.sleep(rng.choice((0.0, 0.5, 2.0)))
        broker.process.run_soon(store.reconnect)
        broker.outage = False

    async def _blink(self) -> Step:
        """The link breaks, perhaps just before an answer, and is there again."""
        broker = self._broker()
        if not broker.is_up or broker.outage:
            return ()
        before_answer = self._rng.random() < 0.7
        self._history.spawn(self._reconnect(broker, before_answer))
        return broker.label, before_answer

    async def _reconnect(self, broker: SimBroker, before_answer: bool) -> None:
        broker.outage = True
        if before_answer:
            broker.store.cut_after_write = True
            await asyncio.sleep(self._rng.choice((0.1, 1.0)))
        broker.store.cut_after_write = False
        broker.process.run_soon(broker.store.cut)
        await asyncio.sleep(self._rng.choice((0.0, 0.02, 0.3)))
        broker.process.run_soon(broker.store.reconnect)
        broker.outage = False

    async def _pause(self) -> Step:
        broker = self._broker()
        if not broker.runs or broker.outage:
            return ()
        self._history.spawn(self._sleep(broker))
        return (broker.label,)

    async def _sleep(self, broker: SimBroker) -> None:
        """Pauses a broker. If its session ends meanwhile, it goes on as a believed owner for a while."""
        rng = self._rng
        broker.outage = True
        broker.process.pause()
        await asyncio.sleep(rng.choice((0.01, 0.3, 1.0)))
        ends = rng.random() < 0.7
        if ends:
            await broker.store.end_session()
        await asyncio.sleep(rng.choice((0.0, 0.5, 2.0, 4.0)))
        broker.process.wake()
        if ends:
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.1, 1.0)))
            broker.process.run_soon(broker.store.cut)
            await asyncio.sleep(rng.choice((0.0, 0.1, 1.0)))
            broker.process.run_soon(broker.store.reconnect)
        broker.outage = False

    async def _zombie(self) -> Step:
        """The owner of a topic sleeps in the middle of its work, others take over, and it wakes."""
        history, rng = self._history, self._rng
        producer = rng.choice(history.producers)
        owner = next((each for each in history.brokers.values() if each.runs and each.serves(producer.topic)), None)
        if owner is None or owner.outage:
            return ()
        consumers = [each for each in history.consumers if each.topic == producer.topic]
        producer.publish(rng.choice((1, 3)))
        for consumer in consumers:
            history.spawn(consumer.ack(0.5))
        await asyncio.sleep(rng.choice((0.0, 0.005, 0.01, 0.02, 0.05, 0.2)))
        history.spawn(self._sleep(owner))
        for _ in range(rng.randint(1, 5)):
            await asyncio.sleep(rng.choice((0.1, 0.5, 1.0)))
            producer.publish(1)
            history.spawn(rng.choice(consumers).ack(rng.choice((0.5, 1.0))))
            history.check()
        return owner.label, producer.name

    async def _kill(self) -> Step:
        broker = self._broker()
        silently = self._rng.random() < 0.3
        self._history.end(broker, silently=silently)
        return broker.label, silently

    async def _restart(self) -> Step:
        broker = self._broker()
        if not broker.process.is_dead:
            return ()
        self._history.begin(broker.name)
        return (broker.label,)

    async def _stop(self) -> Step:
        broker = self._broker()
        if not broker.runs or broker.is_leaving:
            return ()
        self._history.spawn(self._leave(broker))
        return (broker.label,)

    async def _leave(self, broker: SimBroker) -> None:
        stopping = broker.process.spawn(broker.stop())
        await asyncio.wait((stopping,), timeout=60.0)
        self._history.end(broker)

    async def _bookie_link(self) -> Step:
        history = self._history
        broker, machine = self._broker(), self._rng.choice(list(history.bookies.machines))
        state = self._rng.choice(STATES)
        history.bookies.link(broker.label, machine).state = state
        return broker.label, machine, state.name

    async def _bookie_power(self) -> Step:
        machine = self._rng.choice(list(self._history.bookies.machines.values()))
        if machine.bookie is None:
            machine.start()
            return machine.name, "start"
        await machine.lose_power(silently=self._rng.random() < 0.5)
        return machine.name, "lost"

    async def _client_cut(self) -> Step:
        """A client and a broker do not reach each other any more, or only lose their connection."""
        history, rng = self._history, self._rng
        broker, client = self._broker(), rng.choice(history.clients)
        how = rng.choice(("reset", "silent", "cut"))
        link = client.link
        if how == "cut" and len(history.cuts) < 3:
            history.cuts.add((client.name, broker.name))
        if link is not None and link.broker is broker:
            link.break_off(silently=how == "silent")
        if rng.random() < 0.3:
            history.cuts.clear()
        return broker.label, client.name, how

    async def _calm(self) -> Step:
        await self._history.calm()
        return ()
