"""The stats that persistent and non-persistent topics share: the incoming and outgoing traffic of a topic, its
producers and its consumers.

Field names and their order are Apache's: TopicStatsImpl, PublisherStatsImpl and ConsumerStatsImpl, as Pulsar 4.0.7
answers them. Rates are those of the last full period; counters count since the topic was loaded.
"""

from datetime import UTC, datetime

from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import ConsumerCounters
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from pulsar_proto.pb import pulsar_api_pb2 as pb

Json = dict[str, object]

NEITHER_FILTERED_NOR_THROTTLED: Json = {
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
    "dispatchThrottledBytesEventsBySubscriptionLimit": 0,
    "dispatchThrottledMsgEventsByTopicLimit": 0,
    "dispatchThrottledBytesEventsByTopicLimit": 0,
    "dispatchThrottledMsgEventsByBrokerLimit": 0,
    "dispatchThrottledBytesEventsByBrokerLimit": 0,
}
NO_OFFLOADING: Json = {
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
}
NO_TRANSACTIONS: Json = {"ongoingTxnCount": 0, "abortedTxnCount": 0, "committedTxnCount": 0}
NOTHING_DRAINS: Json = {
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
}
"""The values of the fields of Key_Shared in the stats of subscriptions and consumers of the other types."""


def iso_time(time_ms: int) -> str:
    """Returns the time in the format in which Java prints an Instant: without milliseconds if they are 0."""
    precision = "milliseconds" if time_ms % 1000 else "seconds"
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def traffic_stats(topic: BaseTopic) -> Json:
    """Returns the incoming traffic of a persistent or non-persistent topic, and the outgoing traffic to its
    subscriptions."""
    publishing = topic.publishing
    out = topic.counters_out()
    return {
        "msgRateIn": publishing.counters.message_rate.value,
        "msgThroughputIn": publishing.counters.byte_rate.value,
        "msgRateOut": out.message_rate.value,
        "msgThroughputOut": out.byte_rate.value,
        "bytesInCounter": publishing.counters.bytes_in,
        "msgInCounter": publishing.counters.messages_in,
        "systemTopicBytesInCounter": 0,
        "bytesOutCounter": out.bytes_out,
        "msgOutCounter": out.messages_out,
        "bytesOutInternalCounter": 0,
        "averageMsgSize": publishing.counters.average_size,
        "msgChunkPublished": False,
    }


def producer_stats(producer: Producer) -> Json:
    counters = producer.counters
    return {
        "accessMode": pb.ProducerAccessMode.Name(producer.access_mode),
        "msgRateIn": counters.message_rate.value,
        "msgThroughputIn": counters.byte_rate.value,
        "averageMsgSize": counters.average_size,
        "chunkedMessageRate": 0.0,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": producer.cnx.remote_address,
        "connectedSince": iso_time(producer.connected_ms),
        "clientVersion": producer.cnx.client_version,
        "metadata": producer.metadata,
    }


def sent_stats(counters: ConsumerCounters) -> Json:
    """Returns the stats of the messages that were sent to one consumer, or to all consumers of a subscription."""
    return {
        "msgRateOut": counters.message_rate.value,
        "msgThroughputOut": counters.byte_rate.value,
        "bytesOutCounter": counters.bytes_out,
        "msgOutCounter": counters.messages_out,
        "msgRateRedeliver": counters.redelivery_rate.value,
        "messageAckRate": counters.ack_rate.value,
        "chunkedMessageRate": 0.0,
    }


def consumer_stats(consumer: Consumer, of_key_shared: Json) -> Json:
    """Returns the consumer's entry in its subscription's stats. `of_key_shared` holds the fields that Key_Shared adds
    to the entry (see `key_shared_stats`), and is empty for the other subscription types."""
    counters = consumer.counters
    return {
        **sent_stats(counters),
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked_messages,
        "avgMessagesPerEntry": 0 if consumer.average.is_new else round(consumer.average.value),
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        **NOTHING_DRAINS,
        **of_key_shared,
        "address": consumer.cnx.remote_address,
        "connectedSince": iso_time(consumer.connected_ms),
        "clientVersion": consumer.cnx.client_version,
        "lastAckedTimestamp": counters.last_acked_ms,
        "lastConsumedTimestamp": counters.last_sent_ms,
        "lastConsumedFlowTimestamp": counters.last_flow_ms,
        "metadata": consumer.metadata,
        "lastAckedTime": iso_time(counters.last_acked_ms),
        "lastConsumedTime": iso_time(counters.last_sent_ms),
    }


def client_consumer_stats(consumer: Consumer) -> Json:
    """Returns the fields of CONSUMER_STATS_RESPONSE."""
    counters = consumer.counters
    return {
        "msgRateOut": counters.message_rate.value,
        "msgThroughputOut": counters.byte_rate.value,
        "msgRateRedeliver": counters.redelivery_rate.value,
        "consumerName": consumer.name,
        "availablePermits": max(0, consumer.permits),
        "unackedMessages": consumer.unacked_messages,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "address": consumer.cnx.remote_address,
        "connectedSince": iso_time(consumer.connected_ms),
        "type": consumer.subscription.type_name,
        "msgRateExpired": 0.0,
        "msgBacklog": consumer.subscription.cursor.backlog,
        "messageAckRate": counters.ack_rate.value,
    }
