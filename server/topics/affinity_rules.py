"""Decides on which groups of bookies the ledgers of a topic may be placed. Does no I/O. Source:
BrokerService.getManagedLedgerConfig."""

from collections.abc import Mapping
from typing import Any

from magnetar.storage.ledger.isolation_rules import ANY_GROUP, BookieGroups
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

KEY = "bookieAffinityGroup"
PRIMARY, SECONDARY = "bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary"


def groups_in(local_policies: Mapping[str, Any]) -> BookieGroups | None:
    """Returns the bookie groups that a namespace's LocalPolicies name, or None when the LocalPolicies name no group."""
    affinity = local_policies.get(KEY)
    if not isinstance(affinity, dict):
        return None
    return BookieGroups(str(affinity.get(PRIMARY) or ""), str(affinity.get(SECONDARY) or ""))


def bookie_groups(asked: BookieGroups | None, topic: TopicName, *, is_strict: bool) -> BookieGroups | None:
    """Returns the bookie groups for the ledgers of a topic; `asked` are the groups of the topic's namespace. With
    `is_strict` (strictBookieAffinityEnabled) and no groups in `asked`, a user's topic may only use bookies that belong
    to no group, and a system topic may use all bookies."""
    if asked is not None or not is_strict:
        return asked
    return BookieGroups(ANY_GROUP, ANY_GROUP) if is_system_topic(topic) else BookieGroups("")
