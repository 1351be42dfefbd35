"""Which dispatcher a consumer's kind of subscription has."""

from pulsar_proto.names import TopicName
from server.topics.consumer import Consumer, SubType
from server.topics.dispatcher import Dispatcher, Source
from server.topics.key_shared_dispatcher import KeySharedDispatcher
from server.topics.shared_dispatcher import SharedDispatcher
from server.topics.single_active_dispatcher import SingleActiveDispatcher


def new_dispatcher(source: Source, consumer: Consumer, topic: TopicName) -> Dispatcher:
    if consumer.sub_type == SubType.Shared:
        return SharedDispatcher(source)
    if consumer.sub_type == SubType.Key_Shared:
        return KeySharedDispatcher(source, consumer.key_shared)
    return SingleActiveDispatcher(source, consumer.sub_type, topic.full, topic.partition_index)
