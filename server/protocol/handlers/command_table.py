"""The table of all commands that a client may send, with the handler of each.

SEND is not in it: the SENDs of one read are handled as groups by `send_groups.publish_run`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from magnetar.server.protocol.handler import Handler
from magnetar.server.protocol.handlers import (
    connect,
    consume,
    lookup,
    positions,
    produce,
    schema,
    topic_list,
    transactions,
)
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.security.security import Security

_Type = pb.BaseCommand

TABLE: dict[int, Handler] = {
    _Type.CONNECT: Handler("connect", connect.connect, connect.refuse_connect),
    _Type.AUTH_RESPONSE: Handler("authResponse", connect.auth_response, None),
    _Type.PING: Handler("ping", connect.ping, None),
    _Type.PONG: Handler("pong", connect.pong, None),
    _Type.PRODUCER: Handler("producer", produce.create_producer, changes_state=True),
    _Type.CLOSE_PRODUCER: Handler("close_producer", produce.close_producer, changes_state=True),
    _Type.SUBSCRIBE: Handler("subscribe", consume.subscribe, changes_state=True),
    _Type.CLOSE_CONSUMER: Handler("close_consumer", consume.close_consumer),
    _Type.UNSUBSCRIBE: Handler("unsubscribe", consume.unsubscribe, changes_state=True),
    _Type.FLOW: Handler("flow", consume.flow, None),
    _Type.ACK: Handler("ack", consume.ack, consume.refuse_ack, consume.answer_ack),
    _Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: Handler("redeliverUnacknowledgedMessages", consume.redeliver, None),
    _Type.SEEK: Handler("seek", positions.seek, changes_state=True),
    _Type.GET_LAST_MESSAGE_ID: Handler("getLastMessageId", positions.get_last_message_id),
    _Type.CONSUMER_STATS: Handler("consumerStats", positions.consumer_stats, positions.refuse_consumer_stats),
    _Type.LOOKUP: Handler("lookupTopic", lookup.lookup, lookup.refuse_lookup),
    _Type.PARTITIONED_METADATA: Handler(
        "partitionMetadata", lookup.partitioned_metadata, lookup.refuse_partitioned_metadata
    ),
    _Type.GET_TOPICS_OF_NAMESPACE: Handler("getTopicsOfNamespace", topic_list.get_topics_of_namespace),
    _Type.WATCH_TOPIC_LIST: Handler("watchTopicList", topic_list.watch_topic_list),
    _Type.WATCH_TOPIC_LIST_CLOSE: Handler("watchTopicListClose", topic_list.watch_topic_list_close),
    _Type.GET_SCHEMA: Handler("getSchema", schema.get_schema, schema.refuse_get_schema),
    _Type.GET_OR_CREATE_SCHEMA: Handler(
        "getOrCreateSchema", schema.get_or_create_schema, schema.refuse_get_or_create_schema, changes_state=True
    ),
    _Type.NEW_TXN: Handler("newTxn", transactions.not_enabled),
    _Type.ADD_PARTITION_TO_TXN: Handler("addPartitionToTxn", transactions.not_enabled),
    _Type.ADD_SUBSCRIPTION_TO_TXN: Handler("addSubscriptionToTxn", transactions.not_enabled),
    _Type.END_TXN: Handler("endTxn", transactions.not_enabled),
    _Type.END_TXN_ON_PARTITION: Handler("endTxnOnPartition", transactions.not_enabled),
    _Type.END_TXN_ON_SUBSCRIPTION: Handler("endTxnOnSubscription", transactions.not_enabled),
    _Type.TC_CLIENT_CONNECT_REQUEST: Handler("tcClientConnectRequest", transactions.not_enabled),
}


def commands_of(security: "Security | None") -> Mapping[int, Handler]:
    """The table for a broker: with authorization each handler stands behind the permission that its command needs."""
    if security is None or security.authorizer is None:
        return TABLE
    # A broker without authorization does not hold these modules in memory.
    from magnetar.server.protocol.command_permissions import guarded

    return guarded(TABLE, security.authorizer)
