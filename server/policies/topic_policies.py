"""Where the policies of single topics are kept: the interface, and what stands there when topics can have none.

Policies are JSON objects with the keys of Apache's TopicPolicies. They belong to a topic's base name, for all of its
partitions. A global set (for all clusters) may stand beside the local one, which outranks it.

Sources: TopicPoliciesService; facts 7.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pulsar_proto.errors import NotAllowed
from pulsar_proto.names import TopicName

TopicPoliciesChange = Callable[[dict[str, Any]], None]
"""Changes the policies in place; raising changes nothing."""


class TopicPolicies(ABC):
    """All calls on the loop's thread."""

    @abstractmethod
    async def load(self, namespace: str) -> None:
        """After it `get` answers for the namespace's topics. Raises PulsarError."""

    @abstractmethod
    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        """Not to be changed; empty where the topic has none, or the namespace is not loaded."""

    @abstractmethod
    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        """Returns when the change is stored, and `get` shows it. Raises PulsarError, and what `change` raises."""

    @abstractmethod
    async def delete(self, topic: TopicName) -> None:
        """Forgets both sets; nothing happens where there are none. Raises PulsarError."""

    def forget(self, namespace: str) -> None:
        """The namespace, or where it keeps its topics' policies, is gone."""
        return

    def merged(self, topic: TopicName) -> Mapping[str, Any]:
        """What holds: the local value of each key, else the global one."""
        local, common = self.get(topic), self.get(topic, is_global=True)
        if not common:
            return local
        return {**common, **{key: value for key, value in local.items() if value not in (None, {}, [])}}


class NoTopicPolicies(TopicPolicies):
    """With topicLevelPoliciesEnabled=false."""

    async def load(self, namespace: str) -> None:
        return

    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        return {}

    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        raise NotAllowed("Topic level policies is disabled, to enable the topic level policy and retry.")

    async def delete(self, topic: TopicName) -> None:
        return
