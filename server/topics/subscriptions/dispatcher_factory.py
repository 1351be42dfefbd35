"""Creates the dispatcher that the type of a subscription needs."""

from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.dispatch_source import DispatchSource
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from pulsar_proto.names import TopicName


def new_dispatcher(source: DispatchSource, consumer: Consumer, topic: TopicName) -> Dispatcher:
    if consumer.sub_type == SubType.Shared:
        return SharedDispatcher(source)
    if consumer.sub_type == SubType.Key_Shared:
        return KeySharedDispatcher(source, consumer.key_shared)
    return SingleActiveDispatcher(source, consumer.sub_type, topic.full, topic.partition_index)
