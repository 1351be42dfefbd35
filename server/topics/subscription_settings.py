"""What a SUBSCRIBE says of the subscription itself rather than of the consumer.

Sources: PersistentTopic.getDurableSubscription, PersistentSubscription.setReplicated; facts 5.1.
"""

from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.topics.faults import storage_faults_told
from storage.managed.cursor import REPLICATED, Cursor


async def follow(cursor: Cursor, command: pb.CommandSubscribe) -> None:
    """Of a subscription that exists: its properties, if it has none, and whether its state is replicated, which is only
    remembered here. Raises PulsarError."""
    if not cursor.durable:
        return
    if command.HasField("replicate_subscription_state"):
        cursor.put_position_property(REPLICATED, 1 if command.replicate_subscription_state else None)
    properties = {pair.key: pair.value for pair in command.subscription_properties}
    if properties and not cursor.properties:
        with storage_faults_told():
            await cursor.set_properties(properties)


def is_replicated(cursor: Cursor) -> bool:
    return REPLICATED in cursor.position_properties
