"""Deletes a topic at the broker that owns it. Source: NamespacesBase.internalDeletePartitionedTopicsAsync and
internalDeleteTopicsAsync, which use the broker's admin client.
"""

from urllib.parse import quote

from magnetar.server.admin.peer_calls import ask_peer
from magnetar.server.broker.broker import Broker
from magnetar.server.topics.topic_deletion import TopicBusy
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName


async def delete_anywhere(broker: Broker, name: TopicName, force: bool) -> None:
    """Deletes a topic at its owner, which may be this broker. A topic without an owner gets one. Raises TopicNotFound,
    TopicBusy when the topic has clients and `force` is not set, PulsarError, and any other Refusal of the owner."""
    if not broker.ownership.owns(name):
        owner = (await broker.lookups.find_topic(name)).broker
        if owner.broker_id != broker.broker_id:
            path = f"/admin/v2/{name.domain}/{quote(name.namespace)}/{quote(name.local_name, safe='')}"
            try:
                await ask_peer(broker, owner, "DELETE", path, {"force": "true"} if force else {})
            except Refusal as refusal:
                if refusal.status == 404:
                    raise TopicNotFound(refusal.reason) from refusal
                if refusal.status == 412:
                    raise TopicBusy(refusal.reason) from refusal
                raise
            return
    await broker.service.delete_topic(name, force)
