"""Handles LOOKUP, which asks for the broker that serves a topic, and PARTITIONED_METADATA, which asks for the number of
a topic's partitions.

Sources: TopicLookupBase.lookupTopicAsync; ServerCnx.handlePartitionMetadataRequest.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.namespaces.lookup_rules import LookupAnswer
from magnetar.server.network.advertised_listeners import goes_through
from magnetar.server.protocol.topic_names import topic_name
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import (
    lookup_connect_frame,
    lookup_failed_frame,
    lookup_redirect_frame,
    partitions_failed_frame,
    partitions_frame,
)

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


def lookup(cnx: "Connection", command: pb.CommandLookupTopic) -> Coroutine[Any, Any, None] | None:
    """Answers with the broker that serves a topic, or with the broker to ask next. The addresses are those of the
    listener that the command names, or else of the bind address by which the client came in. Raises ServiceNotReady
    when the broker of the answer does not have this listener.

    A standalone server usually knows the answer, and then this needs no task."""
    name = topic_name(command.topic)
    broker = cnx.broker
    if not broker.service.catalog.knows_namespace(name.namespace):
        return _lookup(cnx, name, command)
    with broker.lookup_permit():
        answer = broker.lookups.at_once(name)
        if answer is not None:
            _answer(cnx, command, answer)
            return None
    return _lookup(cnx, name, command)


async def _lookup(cnx: "Connection", name: TopicName, command: pb.CommandLookupTopic) -> None:
    """Answers with the addresses of the topic's owner, or of the broker to ask next. The lookup may make a broker the
    owner. The topic need not exist, but its namespace must; without the namespace the answer is TopicNotFound, as from
    a Java broker 4.0.7. Raises TopicNotFound, TooManyRequests, MetadataFault, ServiceNotReady."""
    broker = cnx.broker
    with broker.lookup_permit():
        await broker.service.catalog.check_namespace(name.namespace)
        answer = await broker.lookups.find_topic(name, authoritative=command.authoritative, preload=True)
        _answer(cnx, command, answer)


def _answer(cnx: "Connection", command: pb.CommandLookupTopic, answer: LookupAnswer) -> None:
    """Writes the addresses of the answer's broker. Raises ServiceNotReady when the broker lacks the listener."""
    listener = command.advertised_listener_name.strip() or cnx.listener_name  # ServerCnx.handleLookup
    urls = answer.broker.of(listener)
    if urls is None:
        raise ServiceNotReady(f"the broker do not have {listener} listener")
    tls = urls.broker_tls or None
    if answer.is_redirect:
        frame = lookup_redirect_frame(command.request_id, urls.broker, tls, authoritative=answer.authoritative)
    else:
        # Clients of a cluster must leave the address that they have dialled, even if all brokers are on loopback.
        through = cnx.broker.ownership.is_sole and goes_through(urls)
        frame = lookup_connect_frame(command.request_id, urls.broker, tls, through_service_url=through)
    cnx.write(frame)


def refuse_lookup(command: pb.CommandLookupTopic, code: pb.ServerError.ValueType, text: str) -> bytes:
    return lookup_failed_frame(command.request_id, code, text)


def partitioned_metadata(cnx: "Connection", command: pb.CommandPartitionedTopicMetadata) -> Coroutine[Any, Any, None]:
    """Answers with the number of a topic's partitions, and creates a missing topic if that is allowed
    (`TopicCatalog.partitions_of`). Raises TopicNotFound, NotAllowed, TooManyRequests."""
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
