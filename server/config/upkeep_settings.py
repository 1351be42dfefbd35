"""The intervals of the broker's periodic work on its topics."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """The settings of the periodic work. Each field has the snake_case name of a key in broker.conf and Pulsar 4.0's
    default. Intervals are positive."""

    message_expiry_check_interval_in_minutes: float = 5
    """The interval between two checks for expired messages. Java takes whole minutes only; this broker also takes
    fractions."""
    backlog_quota_check_enabled: bool = True
    """Whether backlogs are held against their quotas at all."""
    backlog_quota_check_interval_in_seconds: int = 60
    """The interval between two checks of the backlog quotas."""
    subscription_expiry_check_interval_in_minutes: float = 5
    """The interval between two checks for subscriptions that nobody uses any more."""
    broker_deduplication_snapshot_frequency_in_seconds: int = 120
    """The interval between two looks for topics whose snapshot of deduplication is due."""
    broker_delete_inactive_topics_frequency_seconds: int = 60
    """The interval between two checks for topics that nobody uses any more."""
    broker_service_compaction_monitor_interval_in_seconds: int = 60
    """The interval between two checks for topics that are due for compaction."""

    def __post_init__(self) -> None:
        """Checks the settings. Raises ValueError, which names the field."""
        for field in fields(self):
            if getattr(self, field.name) <= 0 and field.name != "backlog_quota_check_enabled":
                raise ValueError(f"{field.name} is {getattr(self, field.name)}, must be positive")
