"""Random histories of brokers of one cluster: sessions end at any moment, brokers sleep and wake as believed owners,
are killed, stopped and started, links break, bundles are unloaded and split, and producers and consumers go on by
themselves.

The claims, of which the first five hold at every moment:

1. Who believes to own a bundle, and has heard everything, has a lock record that belongs to its session. So no two who
   have heard everything believe it of one bundle. The same holds for the leader, and only the leader places bundles.
2. A producer gets one receipt for each message, in order.
3. A broker that gives a bundle away has closed its topics before.
4. A topic that a broker has loaded knows every acknowledgement that was promised before, and does not deliver those
   messages again.
5. No callback and no task ends with an error of the broker's own.
6. When all is mended, soon each bundle has one owner, everything that was published has its receipt, and every consumer
   has got the whole log.
7. The log has every message at the position that its receipt names, written by one broker for each ledger, and each
   producer's messages in order without a gap; with deduplication, each message once.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.server.load.load_manager import LEADER
from magnetar.server.namespaces.bundles import bundles_value
from magnetar.server.topics.topic import Topic
from magnetar.storage.bookie import journal_format
from magnetar.testing.data_folder import DataFolder
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName
from tests.sim.broker_claims import (
    ClaimBroken,
    check_beliefs,
    check_loaded,
    check_log,
    complaint_of_end,
    watch_placement,
)
from tests.sim.broker_steps import Steps
from tests.sim.processes import ProcessLoop, run
from tests.sim.sim_broker import CLUSTER, SimBroker, config_of
from tests.sim.sim_clients import Client, SimConsumer, SimProducer
from tests.sim.sim_cluster import SimCluster
from tests.sim.sim_disk import PAGE_BYTES
from tests.sim.sim_sessions import Servers

NAMESPACE = "acme/orders"
NAMES = ("one", "two", "three")
QUORUMS = ((2, 2, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2))
BOOKIES = 4
TOPICS = 3
STEPS = (15, 40)
SESSION_SECONDS_MAX = 3.0
MENDED_SECONDS = 60.0
"""The time, in virtual seconds, within which everything must be in order again."""
LAST = 0xFFFFFFFF


class BrokerHistory:
    """One history. It implements `sim_clients.World`."""

    def __init__(self, rng: Random, folder: Path) -> None:
        self.rng = rng
        self.home = copy_context()
        self.servers = Servers(rng)
        self.bookies = SimCluster(BOOKIES, rng, folder, self.servers.records)
        ensemble, write, ack = rng.choice(QUORUMS)
        self.deduplicates = rng.random() < 0.3
        self.config = config_of(
            managedLedgerDefaultEnsembleSize=ensemble,
            managedLedgerDefaultWriteQuorum=write,
            managedLedgerDefaultAckQuorum=ack,
            managedLedgerMaxEntriesPerLedger=rng.choice([5, 20, 1_000]),
            managedLedgerCursorMaxEntriesPerLedger=rng.choice([3, 20, 1_000]),
            managedLedgerDefaultMarkDeleteRateLimit=rng.choice([0, 1.0]),
            brokerDeduplicationEnabled=self.deduplicates,
            brokerDeduplicationEntriesInterval=rng.choice([3, 1000]),
        )
        self.brokers: dict[str, SimBroker] = {}
        """The last life of each broker, which may have ended."""
        self.topics = [TopicName.parse(f"persistent://{NAMESPACE}/t{number}") for number in range(TOPICS)]
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self.cuts: set[tuple[str, str]] = set()
        """The pairs of a client and a broker that do not reach each other."""
        self.faults: list[str] = []
        self.loads: dict[Topic, tuple[SimBroker, float]] = {}
        """Every topic object that a broker has loaded, and when."""
        self.trace = hashlib.sha256()
        self.work: list[asyncio.Task[None]] = []
        """What goes on beside the steps."""
        self.given_up: str | None = None
        """The broker that stays dead to the end."""
        self._lives = 0

    # --- for clients -------------------------------------------------------------------------------------------------

    def at(self, url: str) -> SimBroker | None:
        broker = self.brokers[url.removeprefix("pulsar://").partition(":")[0]]
        return broker if broker.listens and not broker.process.is_dead else None

    def addresses(self) -> list[str]:
        return [f"pulsar://{name}:6650" for name in self.brokers]

    def is_cut(self, client: str, broker: SimBroker) -> bool:
        return (client, broker.name) in self.cuts

    def loaded_s(self, topic: Topic) -> float:
        return self.loads[topic][1]

    def note(self, *what: object) -> None:
        self.trace.update(f"{asyncio.get_running_loop().time():.9f} {what}\n".encode())

    # --- the course --------------------------------------------------------------------------------------------------

    async def tell(self) -> None:
        await self.bookies.start()
        await self._set_up()
        for name in NAMES[: self.rng.choice([2, 2, 3])]:
            self.begin(name)
        await self.until(lambda: any(broker.is_up for broker in self.brokers.values()), "no broker starts")
        for number, topic in enumerate(self.topics):
            self.producers.append(SimProducer(self, f"p{number}", topic))
            self.consumers.append(SimConsumer(self, f"c{number}", topic, cumulative=True))
            self.consumers.append(SimConsumer(self, f"s{number}", topic, cumulative=False))
        steps = Steps(self)
        for _ in range(self.rng.randint(*STEPS)):
            self.note(*await steps.one())
            await self._pass(self.rng.choice((0.0, 0.002, 0.02, 0.1, 0.5, 1.5)))
        await self._settle()
        await self._start_anew()

    async def _set_up(self) -> None:
        records = self.servers.records
        self.boundaries = (0, 1 << 31, LAST)
        policies = to_json({"bundles": bundles_value(self.boundaries)})
        await records.create(paths.policies_path(NAMESPACE), policies, make_parents=True)
        await records.create(paths.cluster_path(CLUSTER), b"{}", make_parents=True)

    def begin(self, name: str) -> None:
        """Starts a broker, once more if it is down."""
        self._lives += 1
        broker = SimBroker(name, self._lives, self.servers, self.bookies, self.config, self._loaded, self.faults)
        self.brokers[name] = broker
        self.spawn(self._started(broker))

    async def _started(self, broker: SimBroker) -> None:
        try:
            await broker.started
        except Exception as error:  # the process ends, as after a failed start, and is started again
            self.note(broker.label, "start failed", type(error).__name__)
            self.end(broker)
            await asyncio.sleep(0.5)
            if self.brokers[broker.name] is broker and broker.name != self.given_up:
                self.begin(broker.name)
            return
        watch_placement(broker, self)

    def end(self, broker: SimBroker, *, silently: bool = False) -> None:
        """Kills a broker. Its session ends some time later."""
        if broker.process.is_dead:
            return
        broker.kill()
        for wire in list(broker.wires):
            if silently:
                wire.is_silent = True
            else:
                wire.reset()
        self.spawn(self._bury(broker))

    async def _bury(self, broker: SimBroker) -> None:
        await asyncio.sleep(self.rng.uniform(0, SESSION_SECONDS_MAX))
        if hasattr(broker, "store"):
            await broker.store.end_session()

    def _loaded(self, broker: SimBroker, topic: Topic) -> None:
        self.loads[topic] = broker, asyncio.get_running_loop().time()
        self.note(broker.label, "loaded", topic.name.local_name)
        check_loaded(self, broker, topic)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(self.home.run(asyncio.get_running_loop().create_task, work))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def mend(self) -> None:
        """Makes everything work again: machines, links, brokers."""
        self.cuts.clear()
        for broker in self.brokers.values():
            for wire in list(broker.wires):
                if wire.is_silent:
                    wire.is_silent = False
                    wire.reset()
        await asyncio.gather(*self.bookies.heal())
        for name, broker in list(self.brokers.items()):
            if broker.process.is_dead:
                if name != self.given_up:
                    self.begin(name)
                continue
            if broker.process.is_paused:
                broker.process.wake()
            if not broker.outage and hasattr(broker, "store"):
                if broker.store._is_stalled:
                    broker.process.run_soon(broker.store.cut)
                broker.process.run_soon(broker.store.reconnect)

    async def until(self, condition: Callable[[], bool], complaint: str | Callable[[], str]) -> None:
        """Waits until the condition holds. Raises ClaimBroken when that takes more than MENDED_SECONDS."""
        loop = asyncio.get_running_loop()
        end = loop.time() + MENDED_SECONDS
        while not condition():
            if loop.time() > end:
                problems = {client.name: client.problem for client in self.clients if client.problem}
                said = complaint if isinstance(complaint, str) else complaint()
                raise ClaimBroken(f"{said}, after {MENDED_SECONDS:g} s; last problems: {problems}")
            await self._pass(0.2)

    @property
    def living(self) -> list[SimBroker]:
        """The brokers that are to be up in the end."""
        return [broker for name, broker in self.brokers.items() if name != self.given_up]

    @property
    def clients(self) -> list[Client]:
        return [*self.producers, *self.consumers]

    async def calm(self) -> None:
        """Mends everything, and waits until everything that was published has its receipt."""
        await self.mend()
        await self.until(self._is_at_rest, "an outage does not end")
        await self.mend()
        await self.until(self._is_published, "messages have no receipt")

    def _is_at_rest(self) -> bool:
        return not any(
            (broker.outage or broker.is_leaving) and not broker.process.is_dead for broker in self.brokers.values()
        )

    def _is_published(self) -> bool:
        return not any(producer.unreceipted for producer in self.producers)

    async def _settle(self) -> None:
        """Waits for what claim 6 promises."""
        for producer in self.producers:
            producer.publish(1)
        if self.rng.random() < 0.4:
            self.given_up = self.rng.choice(list(self.brokers))
            self.end(self.brokers[self.given_up])
        await self.calm()
        await self.until(self._is_consumed, "consumers have not got everything")
        await self.until(self._are_joined, "a broker does not join")
        await self.until(lambda: not complaint_of_end(self), lambda: complaint_of_end(self))

    def _are_joined(self) -> bool:
        return all(broker.runs and broker.store.is_quiet for broker in self.living)

    def _is_consumed(self) -> bool:
        wanted = {producer.topic: set(map(producer.body, range(producer.published))) for producer in self.producers}
        return all(wanted[consumer.topic] <= set(consumer.seen.values()) for consumer in self.consumers)

    async def _start_anew(self) -> None:
        """Has everything acknowledged, ends all brokers, in order or not, while messages are under way, starts one of
        them again, and reads the log."""
        await asyncio.gather(*(consumer.ack(1.0) for consumer in self.consumers))
        for producer in self.producers:
            producer.publish(2)
        await self._pass(self.rng.choice((0.0, 0.01, 0.02, 0.05)))
        if self.rng.random() < 0.4:
            stops = [broker.process.spawn(broker.stop()) for broker in self.living]
            await self.until(lambda: all(stop.done() for stop in stops), "a broker does not stop")
            for stop in stops:
                stop.result()
        for broker in self.brokers.values():
            self.end(broker)
        self.given_up = None
        self.begin(NAMES[0])
        await self.until(lambda: self.brokers[NAMES[0]].is_up, "the broker does not start")
        await self.until(lambda: all(client.link for client in self.clients), "clients do not come back")
        await self.until(self._is_published, "messages have no receipt")
        await self.until(self._is_consumed, "consumers have not got everything")
        await self._pass(1.0)
        await check_log(self)

    # --- claims ------------------------------------------------------------------------------------------------------

    async def _pass(self, seconds: float) -> None:
        """Lets time pass, and looks at the claims in between."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            self.check()
            if loop.time() >= end:
                break
            await asyncio.sleep(min(0.03, max(0.001, seconds / 5)))

    def check(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        check_beliefs(self)
        faults = [*self.faults, *loop.faults, *self.bookies.failures]
        for client in self.clients:
            faults += client.faults
            if client.task.done():
                client.task.result()
        if faults:
            raise ClaimBroken(faults[0])
        for work in self.work:
            if work.done() and not work.cancelled() and work.exception() is not None:
                raise work.exception() or AssertionError
        self.work = [work for work in self.work if not work.done()]

    async def attempt(self, work: Coroutine[Any, Any, object]) -> None:
        """Does what may be refused."""
        try:
            await work
        except PulsarError as error:
            self.note("refused", type(error).__name__)

    @property
    def leader_session(self) -> int | None:
        node = self.servers.records._tree.find(LEADER)
        return None if node is None else node.owner


class _Errors(logging.Handler):
    """Takes what the product logs as an error of its own."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self._faults.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


async def _told(rng: Random, folder: Path) -> str:
    history = BrokerHistory(rng, folder)
    handler = _Errors(history.faults)
    logging.getLogger("magnetar").addHandler(handler)
    try:
        await history.tell()
        return history.trace.hexdigest()
    finally:
        logging.getLogger("magnetar").removeHandler(handler)


def tell_of_brokers(seed: int) -> str:
    """Tells the history of a seed and returns its trace. Raises ClaimBroken, or an error that no code should raise."""
    rng = Random(seed)
    logging.disable(logging.WARNING)
    folder = DataFolder()
    try:
        with patch.object(journal_format, "PAGE_SIZE", PAGE_BYTES):
            return run(rng, _begun(rng, folder.path))
    finally:
        folder.remove()
        logging.disable(logging.NOTSET)


async def _begun(rng: Random, folder: Path) -> str:
    return await _told(rng, folder)
