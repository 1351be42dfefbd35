"""What must hold in a history of brokers; `broker_history.py` lists the claims."""

from typing import TYPE_CHECKING, Any

from magnetar.metadata import paths
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.topics.topic import Topic
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.list_record import parse_list
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from tests.sim.sim_broker import SimBroker
from tests.sim.sim_clients import SimProducer, body_of

if TYPE_CHECKING:
    from tests.sim.broker_history import BrokerHistory


class ClaimBroken(AssertionError):
    """A history broke a claim."""


# --- claim 1 ---------------------------------------------------------------------------------------------------------


def check_beliefs(history: "BrokerHistory") -> None:
    """Checks what each broker that has heard everything believes to hold."""
    tree = history.servers.records._tree
    for broker in history.brokers.values():
        if not broker.runs or not broker.store.is_quiet:
            continue
        for owned in broker.ownership._owned.values():
            if not owned.lock.is_held:
                raise ClaimBroken(f"{broker.label} owns {owned.name} without a lock")
            if _is_settled(owned.lock):
                _check_own(broker, owned.lock.path, tree.find(owned.lock.path))
        election = broker.member.load.manager._election
        if election.is_leader and election._settled.is_set() and not election._due.is_set():
            _check_own(broker, election._path, tree.find(election._path))


def _is_settled(lock: ResourceLock) -> bool:
    return lock._checking is None and not lock._turn.locked()


def _check_own(broker: SimBroker, path: str, node: Any) -> None:
    if node is None:
        raise ClaimBroken(f"{broker.label} believes to hold {path}, which is not there")
    if node.owner != broker.store.session_id:
        raise ClaimBroken(f"{broker.label} believes to hold {path}, which belongs to another session")


def watch_placement(broker: SimBroker, history: "BrokerHistory") -> None:
    """Has each placement by this broker checked: it leads, or it has reason to believe that nobody does."""
    manager = broker.member.load.manager
    choose = manager.choose

    async def checked(bundle: BundleName) -> Any:
        leader = next(
            (
                each
                for each in history.brokers.values()
                if each.is_up and each.store.session_lives and each.store.session_id == history.leader_session
            ),
            None,
        )
        is_sure = broker.store.is_quiet and leader is not None and leader is not broker
        if (
            is_sure
            and leader is not None
            and not manager.is_leader
            and leader.addresses.broker_id in manager.view.brokers
        ):
            history.faults.append(f"{broker.label} places {bundle}, but {leader.label} leads")
        return await choose(bundle)

    manager.choose = checked  # type: ignore[method-assign]


# --- claim 4 ---------------------------------------------------------------------------------------------------------


def check_loaded(history: "BrokerHistory", broker: SimBroker, topic: Topic) -> None:
    """Checks that a topic that was just loaded knows the acknowledgements that were promised."""
    for consumer in history.consumers:
        subscription = topic.subscriptions.get(consumer.name)
        if consumer.topic != topic.name or (consumer.mark is None and not consumer.promised):
            continue
        if subscription is None:
            history.faults.append(f"{broker.label} loads {topic} without the subscription {consumer.name}")
            continue
        cursor = subscription.cursor
        lost = [each for each in consumer.promised if not _is_acked(topic, cursor, each)]
        if consumer.mark is not None and not _is_acked(topic, cursor, consumer.mark[0]):
            lost.append(consumer.mark[0])
        if lost:
            at = cursor.mark_delete
            history.faults.append(f"{broker.label} loads {consumer.name} at {at}, the ack of {lost[0]} was promised")


def _is_acked(topic: Topic, cursor: Any, position: Position) -> bool:
    return bool(position <= cursor.mark_delete or cursor.is_acked(*position))


# --- claims 6 and 7 --------------------------------------------------------------------------------------------------


def complaint_of_end(history: "BrokerHistory") -> str:
    """Returns what is not in order: each topic has one owner, nobody else has it loaded, each lock has a holder, and
    there is one leader. Returns an empty text when all is."""
    brokers = history.living
    for topic in history.topics:
        owners = [broker.label for broker in brokers if broker.serves(topic)]
        loaded = [broker.label for broker in brokers if topic.full in broker.broker.service.topics]
        if len(owners) != 1 or loaded != owners:
            return f"{topic.full} is owned by {owners}, and loaded by {loaded}"
    leaders = [broker.label for broker in brokers if broker.member.load.manager.is_leader]
    if len(leaders) != 1:
        return f"the leaders are {leaders}"
    for path, node in _nodes(history, paths.bundle_owner_path(history.topics[0].namespace, "")):
        holders = [
            broker.label
            for broker in brokers
            if broker.store.session_id == node.owner
            and path in {owned.lock.path for owned in broker.ownership._owned.values()}
        ]
        if len(holders) != 1:
            return f"the lock {path} is held by {holders}"
    return ""


def _nodes(history: "BrokerHistory", prefix: str) -> list[tuple[str, Any]]:
    tree = history.servers.records._tree
    parent = prefix.rstrip("/")
    node = tree.find(parent)
    names = [] if node is None else sorted(node.children or ())
    return [(f"{parent}/{name}", tree.find(f"{parent}/{name}")) for name in names]


async def check_log(history: "BrokerHistory") -> None:
    for producer in history.producers:
        log = await _log(history, producer.topic)
        _check_receipts(producer, log)
        _check_order(producer, log, once=history.deduplicates)
        for consumer in history.consumers:
            if consumer.topic == producer.topic:
                missed = [position for position in log if position not in consumer.seen]
                wrong = [position for position, body in consumer.seen.items() if log.get(position) != body]
                if missed or wrong:
                    raise ClaimBroken(
                        f"{consumer.name} missed {missed[:3]}, and got {wrong[:3]} that are not in the log"
                    )


async def _log(history: "BrokerHistory", topic: TopicName) -> dict[Position, bytes]:
    """Returns the messages of a topic by position, in order, as a client of the bookies finds them."""
    record = await history.servers.records.get(paths.managed_ledger_path(topic.managed_ledger_name))
    assert record is not None
    reader = await history.bookies.client(f"reader {topic.full}")
    log: dict[Position, bytes] = {}
    for info in parse_list(record.value).ledgers:
        try:
            handle = await reader.bookkeeper.open_ledger(info.ledger_id)
            entry_id = 0
            while entry_id <= handle.last_add_confirmed:
                for entry in await handle.read(entry_id, handle.last_add_confirmed):
                    log[Position(info.ledger_id, entry_id)] = body_of(entry[handle.payload_offset :])
                    entry_id += 1
        except LedgerError as error:
            raise ClaimBroken(f"{topic.full}: ledger {info.ledger_id}: {error!r}") from error
    return log


def _check_receipts(producer: SimProducer, log: dict[Position, bytes]) -> None:
    writers: dict[int, str] = {}
    for number, (position, broker) in enumerate(zip(producer.receipts, producer.confirmed_by, strict=True)):
        if position.ledger_id >= 0:  # with deduplication, a repeated message has a receipt without a position
            if log.get(position) != producer.body(number):
                raise ClaimBroken(
                    f"{producer.name}: {number} was confirmed at {position}: there is {log.get(position)!r}"
                )
            if writers.setdefault(position.ledger_id, broker) != broker:
                raise ClaimBroken(
                    f"{broker} and {writers[position.ledger_id]} confirmed in ledger {position.ledger_id}"
                )
    placed = [position for position in producer.receipts if position.ledger_id >= 0]
    if placed != sorted(placed):
        raise ClaimBroken(f"{producer.name}: the receipts are not in the order of the log")


def _check_order(producer: SimProducer, log: dict[Position, bytes], *, once: bool) -> None:
    expected = 0
    for position, body in log.items():
        name, _, number = body.decode().partition(" ")
        if name != producer.name:
            raise ClaimBroken(f"{position} of {producer.topic.full} is {body!r}")
        if int(number) > expected or (once and int(number) != expected):
            raise ClaimBroken(f"{producer.name}: {number} at {position}, expected {expected}")
        expected = max(expected, int(number) + 1)
    if expected < producer.published:
        raise ClaimBroken(f"{producer.name}: the log ends before {expected} of {producer.published}")
