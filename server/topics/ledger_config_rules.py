"""Computes a managed ledger's settings from a topic's policies. Does no I/O."""

from dataclasses import replace
from functools import lru_cache

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import Persistence
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

CONFIGS_KEPT = 256
"""How many configurations are cached. Topics with equal policies share one configuration."""


def ledger_config(base: ManagedLedgerConfig, policies: EffectivePolicies) -> ManagedLedgerConfig:
    """Returns `base`, the broker's own configuration, with the changes that the policies ask for. Changed quorums apply
    only to ledgers that are created from now on. When there are too few bookies for the new quorums, the topic takes no
    messages, as in Apache's broker."""
    return _config(
        base,
        policies.retention_time_in_minutes,
        policies.retention_size_in_mb,
        max(0, policies.message_ttl_in_seconds),
        policies.persistence,
    )


@lru_cache(maxsize=CONFIGS_KEPT)
def _config(
    base: ManagedLedgerConfig, minutes: int, megabytes: int, ttl_seconds: int, persistence: Persistence | None
) -> ManagedLedgerConfig:
    config = replace(base, retention_time_minutes=minutes, retention_size_mb=megabytes, message_ttl_seconds=ttl_seconds)
    if persistence is None:
        return config
    return replace(
        config,
        managed_ledger_default_ensemble_size=persistence.ensemble,
        managed_ledger_default_write_quorum=persistence.write_quorum,
        managed_ledger_default_ack_quorum=persistence.ack_quorum,
        managed_ledger_default_mark_delete_rate_limit=max(0.0, persistence.mark_delete_rate),
    )
