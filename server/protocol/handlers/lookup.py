"""LOOKUP and PARTITIONED_METADATA: which broker serves a topic, and how many partitions it has.

Sources: TopicLookupBase.lookupTopicAsync; ServerCnx.handlePartitionMetadataRequest.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.network.advertised_listeners import goes_through
from magnetar.server.network.ports import Urls
from magnetar.server.protocol.topic_names import topic_name
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import (
    lookup_connect_frame,
    lookup_failed_frame,
    partitions_failed_frame,
    partitions_frame,
)

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


def lookup(cnx: "Connection", command: pb.CommandLookupTopic) -> Coroutine[Any, Any, None]:
    """Answers which broker serves a topic. Raises ServiceNotReady for a listener that is not configured."""
    name = topic_name(command.topic)
    urls = cnx.broker.listeners.of(command.advertised_listener_name)
    if urls is None:
        raise ServiceNotReady(f"the broker do not have {command.advertised_listener_name} listener")
    return _lookup(cnx, name, command.request_id, urls)


async def _lookup(cnx: "Connection", name: TopicName, request_id: int, urls: Urls) -> None:
    """Answers with the addresses of this broker, which owns every topic. A topic need not exist to be looked up, but
    its namespace must: a Java broker 4.0.7 answers TopicNotFound otherwise. Raises TopicNotFound, TooManyRequests."""
    broker = cnx.broker
    with broker.lookup_permit():
        await broker.service.catalog.check_namespace(name.namespace)
        cnx.write(
            lookup_connect_frame(
                request_id,
                urls.broker,
                service_url_tls=urls.broker_tls or None,
                through_service_url=goes_through(urls),
            )
        )


def refuse_lookup(command: pb.CommandLookupTopic, code: pb.ServerError.ValueType, text: str) -> bytes:
    return lookup_failed_frame(command.request_id, code, text)


def partitioned_metadata(cnx: "Connection", command: pb.CommandPartitionedTopicMetadata) -> Coroutine[Any, Any, None]:
    """Answers how many partitions a topic has, and creates a missing one if that is allowed: see
    `TopicCatalog.partitions_of`. Raises TopicNotFound, NotAllowed, TooManyRequests."""
    return _partitioned_metadata(cnx, topic_name(command.topic), command)


async def _partitioned_metadata(
    cnx: "Connection", name: TopicName, command: pb.CommandPartitionedTopicMetadata
) -> None:
    with cnx.broker.lookup_permit():
        count = await cnx.broker.service.catalog.partitions_of(name, may_create=command.metadata_auto_creation_enabled)
        cnx.write(partitions_frame(command.request_id, count))


def refuse_partitioned_metadata(
    command: pb.CommandPartitionedTopicMetadata, code: pb.ServerError.ValueType, text: str
) -> bytes:
    return partitions_failed_frame(command.request_id, code, text)
