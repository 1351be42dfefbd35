"""The options of `set-offload-policies`, whose names differ between the groups of commands."""

from magnetar.server.tools.admin.command_table import BYTES, INTEGER, LONG, MILLIS, SECONDS, Option
from magnetar.server.tools.admin.offload_body import DRIVERS, MAX_BLOCK_BYTES, READ_BUFFER_BYTES

_DRIVER = "where to: " + ", ".join(DRIVERS)
_THRESHOLD = "offload when a topic is larger, as 10M; 0 = at once, -1 = never"
_AFTER = "offload what is older; -1 = never"
_LAG = "how long an offloaded ledger stays in BookKeeper too"


def _places(role: str) -> tuple[Option, ...]:
    """Returns the options that say where to. `role` holds the names of the option for a role."""
    return (
        Option("-d --driver", _DRIVER, required=True),
        Option("-r --region", "the region of the bucket"),
        Option("-b --bucket", "the bucket"),
        Option("-e --endpoint", "the service that has the bucket"),
        Option("-i --aws-id", "the id of AWS credentials"),
        Option("-s --aws-secret", "the secret of AWS credentials; other users of this machine may see it"),
        Option(role, "the role to take on with AWS", called="s3-role"),
        Option("-rsn --s3-role-session-name", "the name of the session with that role"),
    )


_PRIORITY = Option("-orp --offloadedReadPriority", "what is read first: tiered-storage-first, bookkeeper-first")

OF_TOPIC_POLICIES = (
    *_places("--ro --s3-role"),
    Option("-m --maxBlockSizeInBytes", "the largest block in bytes", INTEGER, default=MAX_BLOCK_BYTES),
    Option("-rb --readBufferSizeInBytes", "the read buffer in bytes", INTEGER, default=READ_BUFFER_BYTES),
    Option("-t --offloadThresholdInBytes", "offload when a topic has more bytes", LONG),
    Option("-ts --offloadThresholdInSeconds", "offload what is older, in seconds", LONG),
    Option("-dl --offloadDeletionLagInMillis", _LAG + ", in milliseconds", LONG),
    _PRIORITY,
)
OF_TOPICS = (
    *OF_TOPIC_POLICIES[:8],
    Option("-mbs -m --maxBlockSizeInBytes --maxBlockSize", "the largest block, as 10M", BYTES, default=MAX_BLOCK_BYTES),
    Option(
        "-rbs -rb --readBufferSizeInBytes --readBufferSize", "the read buffer, as 1M", BYTES, default=READ_BUFFER_BYTES
    ),
    Option("-oat -t --offloadThresholdInBytes --offloadAfterThreshold", _THRESHOLD, BYTES),
    Option("-oats -ts --offloadThresholdInSeconds --offloadAfterThresholdInSeconds", _AFTER, SECONDS),
    Option("-oae -dl --offloadDeletionLagInMillis --offloadAfterElapsed", _LAG, MILLIS),
    _PRIORITY,
)
OF_NAMESPACES = (
    *_places("-ro --s3-role"),
    Option(
        "-mbs --maxBlockSize",
        "the largest block, as 10M",
        BYTES,
        default=MAX_BLOCK_BYTES,
        called="maxBlockSizeInBytes",
    ),
    Option(
        "-rbs --readBufferSize",
        "the read buffer, as 1M",
        BYTES,
        default=READ_BUFFER_BYTES,
        called="readBufferSizeInBytes",
    ),
    Option("-oae --offloadAfterElapsed", _LAG, MILLIS, called="offloadDeletionLagInMillis"),
    Option("-oat --offloadAfterThreshold", _THRESHOLD, BYTES, called="offloadThresholdInBytes"),
    Option("-oats --offloadAfterThresholdInSeconds", _AFTER, SECONDS, called="offloadThresholdInSeconds"),
    _PRIORITY,
)
