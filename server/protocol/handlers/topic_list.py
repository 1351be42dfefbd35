"""Handles GET_TOPICS_OF_NAMESPACE, WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE.

Sources:
ServerCnx.handleGetTopicsOfNamespace, internalHandleGetTopicsOfNamespace; TopicListService.
"""

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.server.namespaces.topic_list_rules import (
    TopicListChange,
    TopicListDigest,
    digest_of,
    filter_by_pattern,
)
from magnetar.server.namespaces.topic_watchers import Watcher
from magnetar.server.process.turns import Turns, in_slices
from pulsar_proto.errors import NotAllowed, ServiceNotReady, TooManyRequests
from pulsar_proto.names import NamespaceName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.system_topics import is_system_name
from pulsar_proto.wire.commands import simple_frame, success_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

WATCHERS_MAX = 1_000
"""How many watchers one connection may have. Further watchers are refused with TooManyRequests."""

NAME_FIELD_BYTES = 4
"""How many bytes each name takes in a frame besides its own: the field's tag, and a length of up to three bytes."""
COMMAND_BYTES = 256
"""How many bytes the other fields of the answer take at most."""
NAMES_AT_ONCE = 5_000
"""How many names are put into an answer before other tasks may run; this takes less than a millisecond."""

_Mode = pb.CommandGetTopicsOfNamespace


def get_topics_of_namespace(cnx: "Connection", command: pb.CommandGetTopicsOfNamespace) -> Coroutine[Any, Any, None]:
    return _get_topics(cnx, NamespaceName.parse(command.namespace), command)


async def _get_topics(cnx: "Connection", namespace: NamespaceName, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answers with the topics of a namespace, without system topics; each partition is listed by its own name. If the
    client's hash says that the client knows the list already, the answer has no names and `changed` is false. Raises
    TooManyRequests, ServiceNotReady."""
    with cnx.broker.lookup_permit():
        topics = await user_topics(cnx, str(namespace), command.mode)
        filtered = None
        if command.HasField("topics_pattern"):
            max_length = cnx.traffic.limits.subscription_pattern_max_length
            filtered = await Turns().run(filter_by_pattern(topics, command.topics_pattern, max_length))
    listed = topics if filtered is None else filtered
    digest = await Turns().run(digest_of(listed))
    changed = command.topics_hash != digest.topics_hash
    if changed:
        check_fits(cnx, listed, digest)
    answer = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=command.request_id,
        filtered=filtered is not None,
        topics_hash=digest.topics_hash,
        changed=changed,
    )
    base = pb.BaseCommand(type=pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=answer)
    async for some in in_slices(listed if changed else (), NAMES_AT_ONCE):
        base.getTopicsOfNamespaceResponse.topics.extend(some)
    cnx.write(simple_frame(base))


def check_fits(cnx: "Connection", topics: Sequence[str], digest: TopicListDigest) -> None:
    """Raises NotAllowed when the names do not fit into one frame. Clients close the connection at a longer frame, and
    ask again and again (LengthFieldBasedFrameDecoder in Java's PulsarChannelInitializer, ClientConnection in C++)."""
    needed = digest.name_bytes + len(topics) * NAME_FIELD_BYTES + COMMAND_BYTES
    most = cnx.traffic.limits.max_frame_size
    if needed > most:
        raise NotAllowed(
            f"The names of {len(topics)} topics need {needed} bytes, and a frame has at most {most}: choose a pattern "
            "that fewer topics match"
        )


async def user_topics(cnx: "Connection", namespace: str, mode: int) -> list[str]:
    """Returns the full names of the users' topics in a namespace, sorted. `mode` chooses the domain, or both domains. A
    non-persistent topic exists only as long as it is loaded."""
    catalog = cnx.broker.service.catalog
    found: list[str] = []
    if mode != _Mode.PERSISTENT:
        found += await cnx.broker.non_persistent_names.of(namespace)
    if mode != _Mode.NON_PERSISTENT:
        async for some in in_slices(await catalog.topics_of(namespace)):
            found += [topic for topic in some if not is_system_name(topic)]
    return await sorted_in_portions(found)


def watch_topic_list(cnx: "Connection", command: pb.CommandWatchTopicList) -> Coroutine[Any, Any, None]:
    """Begins to tell the client of topics that come and go. For a watcher id that is in use, answers with that
    watcher's list again. Raises ServiceNotReady while the first list of that id is being made, NotAllowed when watching
    is off, and TooManyRequests."""
    if not cnx.traffic.limits.enable_broker_topic_list_watcher:
        raise NotAllowed("Unable to create topic list watcher: topic list watching is disabled")
    namespace = NamespaceName.parse(command.namespace)
    watcher_id = command.watcher_id
    known = cnx.topic_watchers.get(watcher_id)
    if known is None:
        if len(cnx.topic_watchers) >= WATCHERS_MAX:
            raise TooManyRequests(f"More than {WATCHERS_MAX} topic list watchers on one connection")
        max_length = cnx.traffic.limits.subscription_pattern_max_length
        known = Watcher(str(namespace), command.topics_pattern, max_length, partial(_tell, cnx, watcher_id))
        cnx.topic_watchers[watcher_id] = known
        return _watch(cnx, known, command, is_new=True)
    if not known.is_told:
        raise ServiceNotReady("Topic list watcher is already present on the connection")
    return _watch(cnx, known, command, is_new=False)


async def _watch(cnx: "Connection", watcher: Watcher, command: pb.CommandWatchTopicList, *, is_new: bool) -> None:
    """Answers with the watcher's topics, but without their names when the client's hash says that the client knows
    them. Raises TooManyRequests, ServiceNotReady."""
    topics = watcher.topics
    if is_new:
        try:
            with cnx.broker.lookup_permit():
                topics = await cnx.broker.watchers.add(watcher)
        except BaseException:
            cnx.topic_watchers.pop(command.watcher_id, None)
            raise
    if cnx.topic_watchers.get(command.watcher_id) is not watcher:
        cnx.broker.watchers.remove(watcher)  # The client has closed the watcher.
        return
    digest = await Turns().run(digest_of(topics))
    is_known = command.topics_hash == digest.topics_hash
    if not is_known:
        try:
            check_fits(cnx, topics, digest)
        except NotAllowed:
            cnx.topic_watchers.pop(command.watcher_id, None)
            cnx.broker.watchers.remove(watcher)
            raise
    success = pb.CommandWatchTopicListSuccess(
        request_id=command.request_id,
        watcher_id=command.watcher_id,
        topic=[] if is_known else topics,
        topics_hash=digest.topics_hash,
    )
    base = pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_LIST_SUCCESS, watchTopicListSuccess=success)
    cnx.write(simple_frame(base))


def _tell(cnx: "Connection", watcher_id: int, change: TopicListChange) -> None:
    update = pb.CommandWatchTopicUpdate(
        watcher_id=watcher_id,
        new_topics=change.new,
        deleted_topics=change.deleted,
        topics_hash=change.topics_hash,
    )
    cnx.write(simple_frame(pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_UPDATE, watchTopicUpdate=update)))


def watch_topic_list_close(cnx: "Connection", command: pb.CommandWatchTopicListClose) -> None:
    """Closes a watcher, and answers SUCCESS even if there is no such watcher."""
    watcher = cnx.topic_watchers.pop(command.watcher_id, None)
    if watcher is not None:
        cnx.broker.watchers.remove(watcher)
    cnx.write(success_frame(command.request_id))
