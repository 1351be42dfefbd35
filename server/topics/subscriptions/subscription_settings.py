"""Applies those fields of a SUBSCRIBE that concern the subscription, not the consumer.

Sources: PersistentTopic.getDurableSubscription, PersistentSubscription.setReplicated.
"""

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.properties_rules import fault_of_properties
from magnetar.storage.managed.cursor import REPLICATED, Cursor
from pulsar_proto.errors import NotAllowed
from pulsar_proto.pb import pulsar_api_pb2 as pb


def properties_of(command: pb.CommandSubscribe) -> dict[str, str]:
    """Returns the properties that a new subscription gets from the command. Raises NotAllowed when the properties are
    too many or too large."""
    properties = {pair.key: pair.value for pair in command.subscription_properties}
    fault = fault_of_properties("subscription", properties)
    if fault is not None:
        raise NotAllowed(fault)
    return properties


def check_durability(cursor: Cursor, *, durable: bool) -> None:
    """Raises NotAllowed when the subscription of `cursor` is durable and a client asks for one that is not, or the
    other way round."""
    if cursor.durable != durable:
        kind = "Durable" if cursor.durable else "NonDurable"
        raise NotAllowed(f"{kind} subscription with the same name already exists.")


async def follow(cursor: Cursor, command: pb.CommandSubscribe) -> None:
    """Changes an existing subscription as the command asks. Sets the properties of a subscription that has none, and
    stores whether the subscription's state is to be replicated; this flag is only stored and has no other effect.
    Raises PulsarError when the changes cannot be stored."""
    if not cursor.durable:
        return
    if command.HasField("replicate_subscription_state"):
        cursor.put_position_property(REPLICATED, 1 if command.replicate_subscription_state else None)
    properties = properties_of(command)
    if properties and not cursor.properties:
        with storage_faults_told():
            await cursor.set_properties(properties)


def is_replicated(cursor: Cursor) -> bool:
    return REPLICATED in cursor.position_properties
