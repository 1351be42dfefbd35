"""Deletes all that a closed topic has stored: its log, what compaction made of it, its schema, its policies, and the
snapshot of its transactions.

Source: PersistentTopic.delete, BrokerService.deleteTopicAsync.
"""

from typing import TYPE_CHECKING

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.subscriptions.acks_in_transactions import delete_pending_acks
from magnetar.server.topics.topic import Topic
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService


class TopicBusy(Exception):
    """Raised when a topic that has producers or consumers is to be deleted without force."""


async def delete_log(service: "BrokerService", topic: Topic) -> None:
    """Deletes the log of a closed topic, and what belongs to the log. Raises PulsarError."""
    # The compacted ledgers are looked up after closing, because a compaction that ends meanwhile changes them.
    compacted = [] if topic.compaction is None else topic.compaction.ledger_ids
    with storage_faults_told():
        await delete_pending_acks(topic, topic.subscriptions.values())
        await service.managed_ledgers.delete(topic.name.managed_ledger_name)
    service.reaper.bury(compacted, topic.name.full, "compaction")
    if not topic.name.is_partition:
        await service.schemas.delete(topic.name)


async def delete_records(service: "BrokerService", name: TopicName) -> None:
    """Deletes what other topics have stored about a topic whose log was deleted. Raises PulsarError."""
    await service.policies.topic_deleted(name)
    if service.transactions is not None:
        await service.transactions.topic_deleted(name)
