"""The table of all commands that a client may send, with the handler of each.

SEND is not in the table, because `send_groups.publish_run` handles the SENDs of one read as groups.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from magnetar.server.protocol.command_handler import CommandHandler
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

TABLE: dict[int, CommandHandler] = {
    _Type.CONNECT: CommandHandler("connect", connect.connect, connect.refuse_connect),
    _Type.AUTH_RESPONSE: CommandHandler("authResponse", connect.auth_response, None),
    _Type.PING: CommandHandler("ping", connect.ping, None),
    _Type.PONG: CommandHandler("pong", connect.pong, None),
    _Type.PRODUCER: CommandHandler("producer", produce.create_producer, changes_state=True),
    _Type.CLOSE_PRODUCER: CommandHandler("close_producer", produce.close_producer, changes_state=True),
    _Type.SUBSCRIBE: CommandHandler("subscribe", consume.subscribe, changes_state=True),
    _Type.CLOSE_CONSUMER: CommandHandler("close_consumer", consume.close_consumer),
    _Type.UNSUBSCRIBE: CommandHandler("unsubscribe", consume.unsubscribe, changes_state=True),
    _Type.FLOW: CommandHandler("flow", consume.flow, None),
    _Type.ACK: CommandHandler("ack", consume.ack, consume.refuse_ack, consume.answer_ack),
    _Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: CommandHandler("redeliverUnacknowledgedMessages", consume.redeliver, None),
    _Type.SEEK: CommandHandler("seek", positions.seek, changes_state=True),
    _Type.GET_LAST_MESSAGE_ID: CommandHandler("getLastMessageId", positions.get_last_message_id),
    _Type.CONSUMER_STATS: CommandHandler("consumerStats", positions.consumer_stats, positions.refuse_consumer_stats),
    _Type.LOOKUP: CommandHandler("lookupTopic", lookup.lookup, lookup.refuse_lookup),
    _Type.PARTITIONED_METADATA: CommandHandler(
        "partitionMetadata", lookup.partitioned_metadata, lookup.refuse_partitioned_metadata
    ),
    _Type.GET_TOPICS_OF_NAMESPACE: CommandHandler("getTopicsOfNamespace", topic_list.get_topics_of_namespace),
    _Type.WATCH_TOPIC_LIST: CommandHandler("watchTopicList", topic_list.watch_topic_list),
    _Type.WATCH_TOPIC_LIST_CLOSE: CommandHandler("watchTopicListClose", topic_list.watch_topic_list_close),
    _Type.GET_SCHEMA: CommandHandler("getSchema", schema.get_schema, schema.refuse_get_schema),
    _Type.GET_OR_CREATE_SCHEMA: CommandHandler(
        "getOrCreateSchema", schema.get_or_create_schema, schema.refuse_get_or_create_schema, changes_state=True
    ),
    **transactions.COMMANDS,
}


def commands_of(security: "Security | None") -> Mapping[int, CommandHandler]:
    """Returns the table for a broker: clients log in if authentication is on, and each handler checks the permission
    that its command needs if authorization is on."""
    if security is None:
        return TABLE
    from magnetar.server.protocol.handlers import authenticated_connect

    connecting = TABLE[_Type.CONNECT]._replace(run=authenticated_connect.connect)
    return {**authorized(security), _Type.CONNECT: connecting}


def authorized(security: "Security") -> Mapping[int, CommandHandler]:
    """Returns the table with handlers that check the permission first. While authorization is off, returns the table
    without these checks."""
    if security.authorizer is None:
        return TABLE
    # A broker without authorization does not hold this module in memory.
    from magnetar.server.protocol.command_permissions import guarded

    return guarded(TABLE, security.authorizer)
