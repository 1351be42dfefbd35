"""LOOKUP and PARTITIONED_METADATA: where a topic is, and of how many partitions it consists.

Sources: TopicLookupBase.lookupTopicAsync; ServerCnx.handlePartitionMetadataRequest; facts 3.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from pulsar_proto.commands import (
    lookup_connect_frame,
    lookup_failed_frame,
    partitions_failed_frame,
    partitions_frame,
)
from pulsar_proto.errors import ServiceNotReady, TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.handlers.names import topic_name

if TYPE_CHECKING:
    from server.broker_context import BrokerContext
    from server.connection import Connection

NAMESPACE_NOT_FOUND = "Namespace not found"


def lookup(cnx: "Connection", command: pb.CommandLookupTopic) -> Coroutine[Any, Any, None]:
    name = topic_name(command.topic)
    if command.advertised_listener_name:
        raise ServiceNotReady(f"the broker do not have {command.advertised_listener_name} listener")
    return _lookup(cnx, name, command)


async def _lookup(cnx: "Connection", name: TopicName, command: pb.CommandLookupTopic) -> None:
    """This broker owns every topic. Whether the topic exists is not asked, whether its namespace does is (facts 14)."""
    broker = cnx.broker
    with broker.lookup_permit():
        await check_namespace(broker, name)
        through = broker.proxy_through_service_url
        cnx.write(
            lookup_connect_frame(
                command.request_id,
                broker.broker_url,
                service_url_tls=broker.broker_url_tls or None,
                through_service_url=through,
            )
        )


def refuse_lookup(command: pb.CommandLookupTopic, code: pb.ServerError.ValueType, text: str) -> bytes:
    return lookup_failed_frame(command.request_id, code, text)


def partitioned_metadata(cnx: "Connection", command: pb.CommandPartitionedTopicMetadata) -> Coroutine[Any, Any, None]:
    return _partitioned_metadata(cnx, topic_name(command.topic), command)


async def _partitioned_metadata(
    cnx: "Connection", name: TopicName, command: pb.CommandPartitionedTopicMetadata
) -> None:
    with cnx.broker.lookup_permit():
        count = await partitions_of(cnx.broker, name, may_create=command.metadata_auto_creation_enabled)
        cnx.write(partitions_frame(command.request_id, count))


async def partitions_of(broker: "BrokerContext", name: TopicName, *, may_create: bool) -> int:
    """0 for a plain topic, and for a missing one that PRODUCER or SUBSCRIBE will create. Raises TopicNotFound (also
    for a namespace that does not exist)."""
    await check_namespace(broker, name)
    count = await broker.service.load_partition_count(name)
    must_exist = count == 0 and not (may_create and broker.allow_auto_topic_creation)
    if must_exist and not await broker.service.topic_exists(name):
        raise TopicNotFound(f"Topic {name.full} not found")  # Java's text is empty over binary, this one over REST
    return count


async def check_namespace(broker: "BrokerContext", name: TopicName) -> None:
    """Raises TopicNotFound."""
    if not await broker.service.namespace_exists(name.namespace):
        raise TopicNotFound(NAMESPACE_NOT_FOUND)


def refuse_partitioned_metadata(
    command: pb.CommandPartitionedTopicMetadata, code: pb.ServerError.ValueType, text: str
) -> bytes:
    return partitions_failed_frame(command.request_id, code, text)
