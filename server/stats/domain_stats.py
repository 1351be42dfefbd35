"""The stats of a persistent or non-persistent topic. The admin API calls these functions."""

from magnetar.server.stats.internal_stats import managed_ledger_stats
from magnetar.server.stats.non_persistent_topic_stats import non_persistent_internal_stats, non_persistent_topic_stats
from magnetar.server.stats.persistent_topic_stats import persistent_topic_stats
from magnetar.server.stats.traffic_stats import Json
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from magnetar.server.topics.topic import Topic


def topic_stats(topic: BaseTopic) -> Json:
    """Returns the answer to `…/stats` without the field `ownerBroker`, which the admin API adds."""
    if isinstance(topic, NonPersistentTopic):
        return non_persistent_topic_stats(topic)
    assert isinstance(topic, Topic)
    return persistent_topic_stats(topic)


def internal_stats(topic: BaseTopic) -> Json:
    """Returns the answer to `…/internalStats` without the schema ledgers, which the admin API adds."""
    if isinstance(topic, NonPersistentTopic):
        return non_persistent_internal_stats(topic)
    assert isinstance(topic, Topic)
    return managed_ledger_stats(topic)
