"""The managed ledger's settings that follow from a topic's policies. Rules only."""

from dataclasses import replace
from functools import lru_cache

from server.policies.effective import EffectivePolicies
from storage.managed.config import ManagedLedgerConfig

CONFIGS_KEPT = 256
"""Topics with the same policies share one object."""


def ledger_config(base: ManagedLedgerConfig, policies: EffectivePolicies) -> ManagedLedgerConfig:
    """`base` is the broker's own: what policies do not say stays as it is there."""
    return _config(
        base,
        policies.retention_time_in_minutes,
        policies.retention_size_in_mb,
        max(0, policies.message_ttl_in_seconds),
    )


@lru_cache(maxsize=CONFIGS_KEPT)
def _config(base: ManagedLedgerConfig, minutes: int, megabytes: int, ttl_seconds: int) -> ManagedLedgerConfig:
    return replace(base, retention_time_minutes=minutes, retention_size_mb=megabytes, message_ttl_seconds=ttl_seconds)
