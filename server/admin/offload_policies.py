"""Reads, checks and shows the policies of offloading. This module does no I/O. Source: OffloadPoliciesImpl."""

from collections.abc import Callable, Mapping
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.policies.event_schema import OFFLOAD_KINDS, OFFLOADED_READ_PRIORITIES
from magnetar.server.web.calls import Refusal

KEY = "offload_policies"
"""The key in the policies of a namespace."""

KEY_OF_TOPIC = "offloadPolicies"
"""The key in the policies of a topic."""

DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
"""The drivers that Apache knows, in the order in which its refusal lists them."""
S3_DRIVERS = ("S3", "aws-s3")
FILE_SYSTEM = "filesystem"
GOOGLE = "google-cloud-storage"
OWN_BUCKETS = {
    **dict.fromkeys(S3_DRIVERS, "s3ManagedLedgerOffloadBucket"),
    GOOGLE: "gcsManagedLedgerOffloadBucket",
}
"""The drivers that have an older key for the name of the bucket, each with this key. Any driver may use
`managedLedgerOffloadBucket` instead."""

PRIORITY = "managedLedgerOffloadedReadPriority"
"""The key of the policy that says whether an offloaded ledger is first looked for in BookKeeper. Its values may also be
spelled as in broker.conf: `bookkeeper-first`."""

DEFAULTS: Mapping[str, Any] = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    "managedLedgerExtraConfigurations": {},
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 << 20,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 128 << 20,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
}
"""The values with which a new object of Java's class begins. These values are stored together with the given ones."""

OF_OLDER_POLICIES = {
    "offload_threshold": "managedLedgerOffloadThresholdInBytes",
    "offload_threshold_in_seconds": "managedLedgerOffloadThresholdInSeconds",
    "offload_deletion_lag_ms": "managedLedgerOffloadDeletionLagInMillis",
}
"""The older policies of a namespace, each with the key of the policy of offloading that has the same meaning."""

_READ_BY_KIND: dict[str, Callable[[Any, str], Any]] = {
    "string": bodies.text,
    "int": lambda value, what: bodies.integer(value, what=what),
    "long": lambda value, what: bodies.integer(value, bodies.LONG_MAX, what),
}


def read(value: Any) -> dict[str, Any]:
    """Returns the policies in a parsed body. Raises Refusal 400 for values of a wrong kind, and 412 when the
    policies do not name a driver that Apache knows, or lack the bucket that the driver needs."""
    given = {} if value is bodies.ABSENT or value is None else bodies.obj(value)
    policies: dict[str, Any] = dict(DEFAULTS)
    for kind, names in OFFLOAD_KINDS.items():
        policies |= {name: _READ_BY_KIND[kind](given[name], name) for name in names if given.get(name) is not None}
    if given.get("managedLedgerExtraConfigurations") is not None:
        extra = bodies.string_map(given["managedLedgerExtraConfigurations"], "managedLedgerExtraConfigurations")
        policies["managedLedgerExtraConfigurations"] = extra
    if given.get(PRIORITY) is not None:
        priority = bodies.text(given[PRIORITY], PRIORITY).upper().replace("-", "_")
        policies[PRIORITY] = bodies.one_of(priority, OFFLOADED_READ_PRIORITIES, PRIORITY)
    driver = policies.get("managedLedgerOffloadDriver")
    if driver not in DRIVERS:
        raise Refusal(412, f"The driver is not supported, support value: {','.join(DRIVERS)}")
    if driver != FILE_SYSTEM and not any(
        map(policies.get, ("managedLedgerOffloadBucket", OWN_BUCKETS.get(driver, "")))
    ):
        raise Refusal(412, "The bucket must be specified for namespace offload.")
    return policies


def as_shown(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the policies as Jackson writes OffloadPoliciesImpl: with a field for each method `is…Driver`."""
    driver = policies.get("managedLedgerOffloadDriver")
    return {
        **{name: value for name, value in policies.items() if value is not None},
        "s3Driver": driver in S3_DRIVERS,
        "gcsDriver": driver == GOOGLE,
        "fileSystemDriver": driver == FILE_SYSTEM,
    }
