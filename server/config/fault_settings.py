"""The key that lets tests inject faults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Whether a standalone server takes faults by REST. Apache's broker has no such key."""

    fault_injection_enabled: bool = False
    """faultInjectionEnabled: superusers may have answers lost, writes failed, and the clock moved. For servers of tests
    only; a warning in the log says when it is on."""
