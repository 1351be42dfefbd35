"""The named subscription of a streaming query. The broker keeps the messages that the subscription has not
acknowledged, and the query acknowledges a batch when it is committed.

The subscription has a durable Exclusive consumer for each partition, which never asks for messages. Cumulative
acknowledgements let the backlog fall to zero. The published connector commits by SEEK to the batch's last message,
which leaves that message in the backlog."""

from magnetar.spark.source.client.broker_connection import BrokerConnection, Disconnected
from magnetar.spark.source.client.partition_reader import last_message_id
from magnetar.spark.source.client.pulsar_client import PulsarClient, while_busy
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, wire_id
from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.pb import pulsar_api_pb2 as pb

CONSUMER_ID = 1
BUSY_SECONDS = 10.0
"""How long ConsumerBusy is tolerated: a broker may take this long to notice that the previous run of the query was
killed."""


class NamedSubscription:
    """A named subscription on several partitions. The object subscribes to a partition at the first call of a method
    for that partition."""

    def __init__(self, client: PulsarClient, name: str) -> None:
        self._client = client
        self.name = name
        self._connections: dict[str, BrokerConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def mark_delete(self, topic: str, *, latest: bool = False) -> Bound:
        """Returns the position up to which the subscription is acknowledged on a partition. Subscribes first if
        necessary; a new subscription begins at the topic's beginning, or with `latest` at its end."""
        return self._client.persist(lambda: last_message_id(self._consumer(topic, latest), CONSUMER_ID)[1])

    def acknowledge(self, topic: str, upto: Bound) -> None:
        """Acknowledges all messages up to and including `upto`; the call returns when the broker has stored the
        acknowledgement. A bound inside a batch acknowledges only the messages before that batch. Raises ConsumerBusy
        when another query uses the subscription, and RuntimeError when the broker refuses the acknowledgement."""
        if upto.is_before_all:
            return
        message_id = wire_id(upto if upto.batch_index == WHOLE_ENTRY else Bound(upto.ledger, upto.entry - 1))
        ack = pb.CommandAck(consumer_id=CONSUMER_ID, ack_type=pb.CommandAck.Cumulative, message_id=[message_id])

        def send() -> None:
            connection = self._consumer(topic, latest=False)
            try:
                answer = connection.request(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack), "ack").ackResponse
            except Disconnected:
                self.forget(topic)
                raise
            if answer.HasField("error"):
                raise RuntimeError(f"{topic}: acknowledging {upto} on {self.name} failed: {answer.message}")

        self._client.persist(send)

    def forget(self, topic: str) -> None:
        if topic in self._connections:
            self._connections.pop(topic).close()

    def _consumer(self, topic: str, latest: bool) -> BrokerConnection:
        known = self._connections.get(topic)
        if known is not None and known.is_alive():
            return known
        self.forget(topic)
        try:
            made = while_busy(lambda: self._subscribe(topic, latest), BUSY_SECONDS)
        except ConsumerBusy as error:
            raise ConsumerBusy(f"subscription {self.name} of {topic} is in use: {error.message}") from error
        self._connections[topic] = made
        return made

    def _subscribe(self, topic: str, latest: bool) -> BrokerConnection:
        connection = self._client.own_connection(topic)
        place = pb.CommandSubscribe.Latest if latest else pb.CommandSubscribe.Earliest
        subscribe = pb.CommandSubscribe(
            topic=topic,
            subscription=self.name,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=CONSUMER_ID,
            consumer_name="spark",
            durable=True,
            initialPosition=place,
            force_topic_creation=False,
        )
        try:
            connection.request(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=subscribe), "subscribe")
        except BaseException:
            connection.close()
            raise
        return connection
