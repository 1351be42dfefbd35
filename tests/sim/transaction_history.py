"""Random histories of transactions: workers consume, transform and produce in transactions, some of which they abort or
leave open, while the broker is killed and machines lose their power. In the end all is healed.

The claims:

1. Exactly once: each input has been acknowledged by one transaction that was committed, and by no other.
2. Atomic: a transaction's messages are visible in all of its topics, or in none.
3. Durable: a transaction whose commit was answered is visible, and one whose abort was answered is not.
4. Isolated: whatever a reader has ever seen belongs to a transaction that is committed in the end.
5. Nothing is blocked for ever: every transaction ends, and every topic can be read to its end.
"""

import asyncio
import hashlib
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from magnetar.metadata import paths
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import TxnId
from pulsar_proto.names import TopicName
from tests.server.topics.scene import Received, ack, bodies, subscription_of
from tests.server.topics.transactions.scene import send
from tests.sim.processes import run
from tests.sim.sim_cluster import SimCluster
from tests.sim.transaction_life import Gone, Life, SimConnection, published

INPUT = TopicName.parse("persistent://public/default/in")
OUTPUTS = [TopicName.parse(f"persistent://public/default/out-{number}") for number in range(3)]
INPUTS = 12
WORKERS = 3
LIVES = 4
END_SECONDS = 300.0
"""How long, in virtual time, everything may take to end after all was healed."""


class ClaimBroken(AssertionError):
    """Says which claim a history has broken."""


class TransactionHistory:
    """One history. `tell` runs it."""

    def __init__(self, rng: Random, folder: Path) -> None:
        self.rng = rng
        self.cluster = SimCluster(3, rng, folder)
        self.settings = TransactionSettings(
            transaction_coordinator_enabled=True,
            transaction_log_batched_write_enabled=rng.random() < 0.5,
            transaction_pending_ack_batched_write_enabled=rng.random() < 0.5,
            transaction_buffer_snapshot_max_transaction_count=rng.choice([2, 5, 1_000]),
        )
        self.trace = hashlib.sha256()
        self.lives = 0
        self.answered: dict[TxnId, bool] = {}
        """The transactions whose end was answered: True for a commit."""
        self.wanted: dict[TxnId, tuple[str, list[TopicName]]] = {}
        """The input and the topics of each transaction."""
        self.seen: set[tuple[str, bytes]] = set()
        """(topic, body) of all that readers have ever got."""
        self.is_ending = False

    def note(self, *what: object) -> None:
        self.trace.update(repr((round(asyncio.get_running_loop().time(), 6), *what)).encode())

    async def tell(self) -> str:
        """Runs the history and returns the digest of its trace. Raises ClaimBroken."""
        await self.cluster.start()
        for namespace in ("public/default", "pulsar/system"):
            await self.cluster.store.create(paths.policies_path(namespace), b"{}", make_parents=True)
        life = await self._born()
        await life.process.spawn(self._publish_inputs(life))
        for _ in range(LIVES - 1):
            self._begin_work(life)
            await self._suffer()
            life.process.kill()
            self.note("killed")
            life = await self._born()
        await asyncio.gather(*self.cluster.heal())
        self._begin_work(life)
        self.is_ending = True
        await self._ends(life)
        await life.process.spawn(self._check(life))
        await self.cluster.close()
        return self.trace.hexdigest()

    async def _born(self) -> Life:
        """Starts the next life of the broker, which may have to wait for machines."""
        self.lives += 1
        life = Life(self.lives, self.cluster, self.settings)
        while True:
            try:
                await life.process.spawn(life.start())
                return life
            except Exception as error:
                self.note("start", type(error).__name__)
                await asyncio.gather(*self.cluster.heal())
                await _pause(1.0)
                self.lives += 1
                life = Life(self.lives, self.cluster, self.settings)

    async def _suffer(self) -> None:
        """Lets some time pass, in which a machine may lose its power."""
        await _pause(self.rng.choice([0.1, 0.5, 1.0, 3.0]) * self.rng.random())
        if self.rng.random() < 0.3:
            machine = self.rng.choice(list(self.cluster.machines.values()))
            self.note("power", machine.name)
            await machine.lose_power(silently=self.rng.random() < 0.5)
            await _pause(self.rng.random())
            machine.start()
        await _pause(self.rng.random())

    # --- workers -----------------------------------------------------------------------------------------------------

    async def _publish_inputs(self, life: Life) -> None:
        cnx = SimConnection()
        producer = await life.producer(cnx, INPUT)
        for number in range(INPUTS):
            send(producer, b"i%d" % number, None, number)
        await cnx.until(lambda: len(cnx.receipts) == INPUTS)

    def _begin_work(self, life: Life) -> None:
        for number in range(WORKERS):
            life.process.spawn(self._work(life, Random(f"{self.rng.random()} {number}")))
        for name in OUTPUTS:
            life.process.spawn(self._read(life, name, f"reader-{self.lives}"))

    async def _work(self, life: Life, rng: Random) -> None:
        """Consumes, transforms and produces until the process dies. After an error it attaches anew."""
        while True:
            attached: list[Consumer | Producer] = []
            try:
                cnx = SimConnection()
                producers = {name: await life.producer(SimConnection(), name) for name in OUTPUTS}
                attached += producers.values()
                consumer = await life.consumer(cnx, INPUT, "s", "Shared")
                attached.append(consumer)
                while True:
                    message = await cnx.next_message()
                    await self._transform(life, rng, consumer, producers, message)
            except (PulsarError, Gone) as error:
                self.note("worker", type(error).__name__, str(error))
                for each in attached:
                    each.close()
                await _pause(0.5)

    async def _transform(
        self,
        life: Life,
        rng: Random,
        consumer: Consumer,
        producers: dict[TopicName, Producer],
        message: Received,
        *,
        is_rival: bool = False,
    ) -> None:
        """Moves one message in a transaction. At times a second transaction tries to move the same message meanwhile,
        and must fail."""
        text = message.body.decode()
        coordinator = await life.coordinators.connect(0)
        txn_id = await coordinator.new(rng.choice([200, 2_000, 30_000]), None)
        names = rng.sample(OUTPUTS, 2)
        self.wanted[txn_id] = (text, names)
        self.note("begun", txn_id, text)
        for number, name in enumerate(names):
            await coordinator.add_partitions(txn_id, [name.full])
            await published(producers[name], f"{text} {txn_id}".encode(), txn_id, number)
        await coordinator.add_subscriptions(txn_id, [(INPUT.full, "s")])
        await ack(consumer, [message.position], request_id=1, txn_id=txn_id)
        if not is_rival and rng.random() < 0.2:
            with suppress(PulsarError, Gone):
                await self._transform(life, rng, consumer, producers, message, is_rival=True)
        choice = 1.0 if self.is_ending else rng.random()
        if choice < 0.15:
            raise Gone  # leaves the transaction open
        commit = choice >= 0.3
        await coordinator.end(txn_id, commit=commit)
        self.answered[txn_id] = commit
        self.note("answered", txn_id, commit)

    async def _read(self, life: Life, name: TopicName, subscription: str) -> None:
        """Reads a topic and remembers all that it gets."""
        while True:
            try:
                cnx = SimConnection()
                await life.consumer(cnx, name, subscription, "Exclusive")
                while True:
                    self.seen.add((name.full, (await cnx.next_message()).body))
            except (PulsarError, Gone):
                await _pause(0.5)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _ends(self, life: Life) -> None:
        """Returns when every input is acknowledged and no transaction is alive."""
        deadline = asyncio.get_running_loop().time() + END_SECONDS
        while not self._is_over(life):
            if asyncio.get_running_loop().time() > deadline:
                alive = [] if 0 not in life.coordinators.loaded else list(life.coordinators.loaded[0].table)
                states = [(str(each.txn_id), each.status.name) for each in alive]
                raise ClaimBroken(f"something is blocked for ever: alive {states}, backlog {self._backlog(life)}")
            await _pause(0.5)

    def _backlog(self, life: Life) -> int | None:
        topic = life.service.topics.get(INPUT.full)
        subscription = None if topic is None else topic.subscriptions.get("s")
        return None if subscription is None else subscription.cursor.backlog

    def _is_over(self, life: Life) -> bool:
        coordinator = life.coordinators.loaded.get(0)
        return coordinator is not None and len(coordinator.table) == 0 and self._backlog(life) == 0

    async def _check(self, life: Life) -> None:
        visible: dict[str, set[bytes]] = {}
        for name in OUTPUTS:
            cnx = SimConnection()
            topic = await life.service.get_topic(name, create=True)
            consumer = await life.consumer(cnx, name, "last", "Exclusive")
            last = topic.ledger.last_confirmed
            cursor = subscription_of(consumer).cursor
            for message in list(cnx.messages):
                await ack(consumer, [message.position], request_id=1)
            waited = 0
            while cursor.mark_delete < last:
                await _pause(0.1)
                for message in cnx.messages:
                    await ack(consumer, [message.position], request_id=1)
                waited += 1
                if waited > 1_000:
                    raise ClaimBroken(f"{name.full} cannot be read to its end: {cursor.mark_delete} of {last}")
            visible[name.full] = set(bodies(cnx))
        self._judge(visible)

    def _judge(self, visible: dict[str, set[bytes]]) -> None:
        """Raises ClaimBroken when a claim does not hold for what is visible in the end."""
        committed: dict[str, list[TxnId]] = {}
        for txn_id, (text, names) in self.wanted.items():
            body = f"{text} {txn_id}".encode()
            shown = [body in visible[name.full] for name in names]
            if self.answered.get(txn_id) is True and not all(shown):
                raise ClaimBroken(f"durable: {txn_id} was answered to be committed and is not visible")
            if self.answered.get(txn_id) is False and any(shown):
                raise ClaimBroken(f"durable: {txn_id} was answered to be aborted and is visible")
            if any(shown) and not all(shown):
                raise ClaimBroken(f"atomic: {txn_id} is visible in one of its topics only")
            if all(shown):
                committed.setdefault(text, []).append(txn_id)
        for number in range(INPUTS):
            found = committed.get(f"i{number}", [])
            if len(found) != 1:
                raise ClaimBroken(f"exactly once: input {number} was consumed by {list(map(str, found))}")
        wild = [each for each in self.seen if each[1] not in visible[each[0]]]
        if wild:
            raise ClaimBroken(f"isolated: readers have seen what was not committed: {wild}")


async def _pause(seconds: float) -> None:
    """Lets virtual time pass."""
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
    await passed


def tell_of_transactions(seed: int) -> str:
    """Runs the history of a seed and returns the digest of its trace. Raises ClaimBroken."""
    rng = Random(seed)

    async def tell(folder: str) -> str:
        return await TransactionHistory(rng, Path(folder) / "bookies").tell()

    with tempfile.TemporaryDirectory() as folder:
        return run(rng, tell(folder))
