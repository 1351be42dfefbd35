"""Reaches the topics and subscriptions of transactions, and the coordinators of other brokers.

What is on this broker is reached by calls. The rest of a cluster is reached by commands of the client protocol, so that
either brand of broker may be asked. Source: TransactionBufferClientImpl.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.topics.topic import Topic
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC
from pulsar_proto.errors import (
    InvalidTopicName,
    InvalidTxnStatus,
    ServiceNotReady,
    TopicNotFound,
    TransactionNotFound,
    error_of_code,
)
from pulsar_proto.ids import TxnId, unsigned64
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker

_Type = pb.BaseCommand


class LocalParticipants:
    """The topics and subscriptions of this broker. A topic or subscription that does not exist has nothing to end."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def end_on_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        """Ends the transaction on a topic of this broker. Raises PulsarError."""
        loaded = await self._topic(topic)
        transactions = None if loaded is None else loaded.begin_transactions()
        if transactions is not None:
            await transactions.end(txn_id, commit, low_watermark)

    async def end_on_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> None:
        """Ends the transaction on a subscription of this broker. Raises PulsarError."""
        loaded = await self._topic(topic)
        found = None if loaded is None else loaded.subscriptions.get(subscription)
        if found is not None and found.pending_acks is not None:
            await found.pending_acks.end(txn_id, commit, low_watermark)

    def end_on_loaded_partition(
        self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> "asyncio.Future[None] | None":
        """See `Participants`."""
        loaded = self._broker.service.topics.get(topic)
        transactions = None if loaded is None else loaded.transactions
        return None if transactions is None else transactions.end_soon(txn_id, commit, low_watermark)

    def end_on_loaded_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> "asyncio.Future[None] | None":
        """See `Participants`."""
        loaded = self._broker.service.topics.get(topic)
        found = None if loaded is None else loaded.subscriptions.get(subscription)
        pending = None if found is None else found.pending_acks
        return None if pending is None else pending.end_soon(txn_id, commit, low_watermark)

    async def _topic(self, topic: str) -> Topic | None:
        """Returns the topic, or None when there is no such topic. Raises ServiceNotReady when another broker serves it,
        and the other errors of `BrokerService.get_topic`."""
        name = _persistent_name(topic)
        if name is None:
            return None
        try:
            return await self._broker.service.get_topic(name, create=False)
        except TopicNotFound:
            return None


class ClusterParticipants:
    """The topics, subscriptions and coordinators of all brokers of the cluster. Calls raise PulsarError when a broker
    refuses, and ServiceNotReady when a broker cannot be reached."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._local = LocalParticipants(broker)
        self.end_on_loaded_partition = self._local.end_on_loaded_partition
        self.end_on_loaded_subscription = self._local.end_on_loaded_subscription

    async def end_on_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        """Ends the transaction on a topic."""
        elsewhere = await self._name_elsewhere(topic)
        if elsewhere is None:
            await self._local.end_on_partition(topic, txn_id, commit, low_watermark)
            return
        end = pb.CommandEndTxnOnPartition(
            txnid_least_bits=txn_id.least,
            txnid_most_bits=txn_id.most,
            topic=topic,
            txn_action=pb.COMMIT if commit else pb.ABORT,
            txnid_least_bits_of_low_watermark=unsigned64(low_watermark),
        )
        command = pb.BaseCommand(type=_Type.END_TXN_ON_PARTITION, endTxnOnPartition=end)
        await self._ask(elsewhere, command, "endTxnOnPartition")

    async def end_on_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> None:
        """Ends the transaction on a subscription."""
        elsewhere = await self._name_elsewhere(topic)
        if elsewhere is None:
            await self._local.end_on_subscription(topic, subscription, txn_id, commit, low_watermark)
            return
        end = pb.CommandEndTxnOnSubscription(
            txnid_least_bits=txn_id.least,
            txnid_most_bits=txn_id.most,
            subscription=pb.Subscription(topic=topic, subscription=subscription),
            txn_action=pb.COMMIT if commit else pb.ABORT,
            txnid_least_bits_of_low_watermark=unsigned64(low_watermark),
        )
        command = pb.BaseCommand(type=_Type.END_TXN_ON_SUBSCRIPTION, endTxnOnSubscription=end)
        await self._ask(elsewhere, command, "endTxnOnSubscription")

    async def is_live(self, txn_id: TxnId) -> bool:
        """Returns whether a transaction of another broker's coordinator is alive.

        The coordinator is asked to add no partitions to the transaction. It does that for an open transaction, and
        refuses in one way for a transaction that is about to end, in another for one that has ended."""
        partition = ASSIGN_TOPIC.partition(txn_id.most)
        # Apache's broker loads a coordinator when a client connects to it.
        connect = pb.CommandTcClientConnectRequest(tc_id=txn_id.most)
        command = pb.BaseCommand(type=_Type.TC_CLIENT_CONNECT_REQUEST, tcClientConnectRequest=connect)
        await self._ask(partition, command, "tcClientConnectRequest", "tcClientConnectResponse")
        add = pb.CommandAddPartitionToTxn(txnid_least_bits=txn_id.least, txnid_most_bits=txn_id.most)
        command = pb.BaseCommand(type=_Type.ADD_PARTITION_TO_TXN, addPartitionToTxn=add)
        try:
            await self._ask(partition, command, "addPartitionToTxn")
        except InvalidTxnStatus:
            return True
        except TransactionNotFound:
            return False
        return True

    async def _name_elsewhere(self, topic: str) -> TopicName | None:
        """Returns the topic's name if its owner has to be asked, and None if this broker serves the topic, or nobody
        does, because there is no such namespace."""
        name = _persistent_name(topic)
        if name is None or self._broker.ownership.owns(name):
            return None
        return name if await self._broker.service.catalog.namespace_exists(name.namespace) else None

    async def _ask(self, topic: TopicName, command: pb.BaseCommand, field: str, answer_field: str = "") -> None:
        """Makes a request at the topic's owner. Raises the error of the answer."""
        client = self._broker.peer_client
        if client is None:
            raise ServiceNotReady("this broker is not a member of the cluster yet")
        try:
            _, link = await client.link_of(topic)
            answer = await client.request(link, command, field)
        except PeerError as error:
            raise ServiceNotReady(str(error)) from error
        body: Any = getattr(answer, answer_field or f"{field}Response")
        if body.HasField("error"):
            raise error_of_code(body.error, body.message)


def _persistent_name(topic: str) -> TopicName | None:
    """Returns the name of a participant, or None for a text that names no persistent topic. Coordinators take any text,
    as Apache's do."""
    try:
        name = TopicName.parse(topic)
    except InvalidTopicName:
        return None
    return name if name.is_persistent else None
