"""The body of `set-offload-policies` (OffloadPoliciesImpl.create)."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.body_rules import without_missing
from magnetar.server.tools.admin.command_table import Values

DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
READ_PRIORITIES = ("bookkeeper-first", "tiered-storage-first")
MAX_BLOCK_BYTES = 64 << 20
READ_BUFFER_BYTES = 1 << 20
GCS_MAX_BLOCK_BYTES = 128 << 20


def offload_policies(values: Values) -> dict[str, Any]:
    """Returns the policies. Raises UsageError for a driver that Pulsar does not have, and for S3 without a place."""
    driver = values["driver"]
    if driver.lower() not in (name.lower() for name in DRIVERS):
        raise UsageError(f"The driver {driver} is not supported, (Possible values: {','.join(DRIVERS)}).")
    is_s3 = driver.lower() in ("s3", "aws-s3")
    if is_s3 and not values["region"] and not values["endpoint"]:
        raise UsageError(
            "Either s3ManagedLedgerOffloadRegion or s3ManagedLedgerOffloadServiceEndpoint must be set if s3 offload "
            "enabled"
        )
    is_gcs = driver.lower() == "google-cloud-storage"
    block, buffer = values["maxBlockSizeInBytes"], values["readBufferSizeInBytes"]
    body = {
        "offloadersDirectory": "./offloaders",
        "managedLedgerOffloadDriver": driver,
        "managedLedgerOffloadMaxThreads": 2,
        "managedLedgerOffloadPrefetchRounds": 1,
        "managedLedgerOffloadThresholdInBytes": values["offloadThresholdInBytes"],
        "managedLedgerOffloadThresholdInSeconds": values["offloadThresholdInSeconds"],
        "managedLedgerOffloadDeletionLagInMillis": values["offloadDeletionLagInMillis"],
        "managedLedgerOffloadedReadPriority": _read_priority(values["offloadedReadPriority"]),
        "managedLedgerExtraConfigurations": {},
        "managedLedgerOffloadBucket": values["bucket"],
        "managedLedgerOffloadRegion": values["region"],
        "managedLedgerOffloadServiceEndpoint": values["endpoint"],
        "managedLedgerOffloadMaxBlockSizeInBytes": block,
        "managedLedgerOffloadReadBufferSizeInBytes": buffer,
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": block if is_s3 else MAX_BLOCK_BYTES,
        "s3ManagedLedgerOffloadReadBufferSizeInBytes": buffer if is_s3 else READ_BUFFER_BYTES,
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes": block if is_gcs else GCS_MAX_BLOCK_BYTES,
        "gcsManagedLedgerOffloadReadBufferSizeInBytes": buffer if is_gcs else READ_BUFFER_BYTES,
        "s3Driver": is_s3,
        "gcsDriver": is_gcs,
        "fileSystemDriver": driver.lower() == "filesystem",
    }
    return without_missing(body | _of_driver(values, is_s3=is_s3, is_gcs=is_gcs))


def _of_driver(values: Values, *, is_s3: bool, is_gcs: bool) -> dict[str, Any]:
    if is_gcs:
        return {
            "gcsManagedLedgerOffloadRegion": values["region"],
            "gcsManagedLedgerOffloadBucket": values["bucket"],
        }
    if not is_s3:
        return {}
    return {
        "s3ManagedLedgerOffloadRegion": values["region"],
        "s3ManagedLedgerOffloadBucket": values["bucket"],
        "s3ManagedLedgerOffloadServiceEndpoint": values["endpoint"],
        "s3ManagedLedgerOffloadCredentialId": values["aws-id"],
        "s3ManagedLedgerOffloadCredentialSecret": values["aws-secret"],
        "s3ManagedLedgerOffloadRole": values["s3-role"],
        "s3ManagedLedgerOffloadRoleSessionName": values["s3-role-session-name"],
    }


def _read_priority(text: str | None) -> str:
    if text is None:
        return "TIERED_STORAGE_FIRST"
    if text.lower() not in READ_PRIORITIES:
        possible = ",".join(READ_PRIORITIES)
        raise UsageError(f"--offloadedReadPriority parameter must be one of {possible} but got: {text}")
    return text.upper().replace("-", "_")
