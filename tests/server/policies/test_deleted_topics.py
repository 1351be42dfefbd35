"""The policies of topics after the deletion of a topic, or of the topic that holds them."""

import pytest

from magnetar.server.policies.policies import Policies
from pulsar_proto.names import TopicName

NAMESPACE = "persistent://acme/orders"


class Told:
    """Stands for the policies of single topics, and notes what it is told."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.deleted: list[str] = []

    def forget(self, namespace: str) -> None:
        self.forgotten.append(namespace)

    async def delete(self, name: TopicName) -> None:
        self.deleted.append(name.full)


@pytest.mark.parametrize("local_name", ["__change_events", "__change_events-partition-0"])
async def test_without_the_events_topic_or_a_partition_of_it_nothing_is_remembered(local_name: str) -> None:
    told = Told()
    policies = Policies.__new__(Policies)
    policies.topics = told  # type: ignore[assignment]
    await policies.topic_deleted(TopicName.parse(f"{NAMESPACE}/{local_name}"))
    assert told.forgotten == ["acme/orders"]
    assert told.deleted == []


async def test_a_deleted_topic_loses_its_policies_and_a_partition_none() -> None:
    told = Told()
    policies = Policies.__new__(Policies)
    policies.topics = told  # type: ignore[assignment]
    await policies.topic_deleted(TopicName.parse(f"{NAMESPACE}/t"))
    await policies.topic_deleted(TopicName.parse(f"{NAMESPACE}/u-partition-1"))
    assert told.deleted == [f"{NAMESPACE}/t"]
    assert told.forgotten == []
