"""GET_TOPICS_OF_NAMESPACE, WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE.

Source: ServerCnx.handleGetTopicsOfNamespace, internalHandleGetTopicsOfNamespace.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from pulsar_proto.commands import simple_frame, success_frame
from pulsar_proto.errors import NotAllowed
from pulsar_proto.names import NamespaceName, TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.topic_list import filter_by_pattern, hash_of, is_system_topic

if TYPE_CHECKING:
    from server.connection import Connection

_Mode = pb.CommandGetTopicsOfNamespace


def get_topics_of_namespace(cnx: "Connection", command: pb.CommandGetTopicsOfNamespace) -> Coroutine[Any, Any, None]:
    return _get_topics(cnx, NamespaceName.parse(command.namespace), command)


async def _get_topics(cnx: "Connection", namespace: NamespaceName, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Names carry their partition suffix, system topics are left out. The same hash: no names, changed=false."""
    topics = await user_topics(cnx, str(namespace), command.mode)
    filtered = None
    if command.HasField("topics_pattern"):
        max_length = cnx.broker.limits.subscription_pattern_max_length
        filtered = filter_by_pattern(topics, command.topics_pattern, max_length)
    listed = topics if filtered is None else filtered
    topics_hash = hash_of(listed)
    changed = command.topics_hash != topics_hash
    answer = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=command.request_id,
        topics=listed if changed else [],
        filtered=filtered is not None,
        topics_hash=topics_hash,
        changed=changed,
    )
    cnx.write(
        simple_frame(
            pb.BaseCommand(type=pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=answer)
        )
    )


async def user_topics(cnx: "Connection", namespace: str, mode: int) -> list[str]:
    """Full names, sorted. Of topics that are not persistent those that are loaded: no others exist."""
    catalog = cnx.broker.service.catalog
    found = [] if mode == _Mode.NON_PERSISTENT else await catalog.topics_of(namespace)
    if mode != _Mode.PERSISTENT:
        found = found + catalog.non_persistent_topics_of(namespace)
    return sorted(topic for topic in found if not is_system_topic(TopicName.parse(topic)))


def watch_topic_list(cnx: "Connection", command: pb.CommandWatchTopicList) -> None:
    """Feature flag 4 is not advertised, so no client asks; one that does is told so and polls."""
    raise NotAllowed("Unable to create topic list watcher: topic list watching is not supported")


def watch_topic_list_close(cnx: "Connection", command: pb.CommandWatchTopicListClose) -> None:
    cnx.write(success_frame(command.request_id))
