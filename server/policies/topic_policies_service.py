"""The interface of the service that keeps the policies of single topics, and the class that stands in for the service
when topics can have no policies of their own.

A topic's policies are a JSON object with the keys of Apache's TopicPolicies. The policies belong to the topic's base
name and hold for all partitions of the topic. A topic can have two such objects: a local object for this cluster, and a
global object for all clusters. A value of the local object outranks the value of the global object.

Source: TopicPoliciesService.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pulsar_proto.errors import NotAllowed
from pulsar_proto.names import TopicName

TopicPoliciesChange = Callable[[dict[str, Any]], None]
"""A function that gets a topic's policies and changes them in place. If the function raises, the policies stay
unchanged."""


class TopicPoliciesService(ABC):
    """The interface of the service that keeps the policies of single topics. Every method is called on the loop's
    thread."""

    @abstractmethod
    async def load(self, namespace: str) -> None:
        """Loads the policies of the namespace's topics, so that `get` can return them. Raises PulsarError when the
        policies cannot be read."""

    @abstractmethod
    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        """Returns the topic's policies, which the caller must not change. The result is empty when the topic has no
        policies, and when the namespace's policies are not loaded."""

    @abstractmethod
    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        """Applies `change` to the topic's policies. Returns once the new policies are stored and `get` returns them.
        Raises PulsarError when the policies cannot be stored, and the exceptions of `change`."""

    @abstractmethod
    async def delete(self, topic: TopicName) -> None:
        """Deletes the topic's local and global policies; a topic without policies is no error. Raises PulsarError when
        the deletion cannot be stored."""

    def forget(self, namespace: str) -> None:
        """Drops the loaded policies of a namespace. Called when the namespace was deleted, or when the topic that holds
        the policies was deleted."""
        return

    def merged(self, topic: TopicName) -> Mapping[str, Any]:
        """Returns the policies that hold for the topic: for each key the local value, or the global value when the
        local value is empty."""
        local, common = self.get(topic), self.get(topic, is_global=True)
        if not common:
            return local
        return {**common, **{key: value for key, value in local.items() if value not in (None, {}, [])}}


class TopicPoliciesDisabled(TopicPoliciesService):
    """Stands in for the service when broker.conf says topicLevelPoliciesEnabled=false: no topic has policies of its
    own."""

    async def load(self, namespace: str) -> None:
        return

    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        return {}

    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        raise NotAllowed("Topic level policies is disabled, to enable the topic level policy and retry.")

    async def delete(self, topic: TopicName) -> None:
        return
