"""Deletes a partitioned topic in three steps: forbids the creation of partitions, deletes the partitions, and deletes
the record of the partitioned topic.

Source: PersistentTopicsBase.internalDeletePartitionedTopic.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from magnetar.server.process.storage_faults import storage_faults_told
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService


DeletePartition = Callable[[TopicName, bool], Awaitable[None]]
"""A function that deletes one partition at the broker that owns the partition; the second argument is True to delete a
partition that has clients. Raises TopicNotFound when the partition does not exist, TopicBusy when it has clients and
the second argument is False, and another PulsarError when the deletion fails."""


async def delete_partitioned(
    service: "BrokerService", name: TopicName, force: bool = False, delete: DeletePartition | None = None
) -> None:
    """Deletes the partitioned topic and its partitions. `delete` deletes each partition; without `delete`, this broker
    deletes all partitions. Raises TopicNotFound when there is no such partitioned topic. After TopicBusy or another
    PulsarError the partitioned topic still exists. Partitions that were deleted before the error are created again,
    empty, at their next use."""
    partitioned = service.catalog.partitioned
    with storage_faults_told():
        record = await partitioned.update(name, deleted=True)
    if record is None:
        raise TopicNotFound(f"Topic {name.full} not found.")
    try:
        if not force:
            for index in range(record.partitions):
                service.check_unused(name.partition(index))
        for index in range(record.partitions):
            try:
                await (delete or service.delete_topic)(name.partition(index), force)
            except TopicNotFound:
                continue
        await service.schemas.delete(name)
        await service.policies.topics.delete(name)
    except BaseException:
        with storage_faults_told():
            await partitioned.update(name, deleted=False)
        raise
    with storage_faults_told():
        await partitioned.delete(name)
