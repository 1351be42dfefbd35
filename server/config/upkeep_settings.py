"""How often the broker looks after its topics."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """The settings of the periodic work. The fields are the snake_case of broker.conf's keys, with Pulsar 4.0's
    defaults. Intervals are positive."""

    message_expiry_check_interval_in_minutes: float = 5
    """Fractions are allowed here; Java takes whole minutes only."""
    backlog_quota_check_enabled: bool = True
    backlog_quota_check_interval_in_seconds: int = 60
    subscription_expiry_check_interval_in_minutes: float = 5
    broker_deduplication_snapshot_frequency_in_seconds: int = 120
    broker_delete_inactive_topics_frequency_seconds: int = 60
    broker_service_compaction_monitor_interval_in_seconds: int = 60

    def __post_init__(self) -> None:
        """Raises ValueError that names the field."""
        for field in fields(self):
            if getattr(self, field.name) <= 0 and field.name != "backlog_quota_check_enabled":
                raise ValueError(f"{field.name} is {getattr(self, field.name)}, must be positive")
