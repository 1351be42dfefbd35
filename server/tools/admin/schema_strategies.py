"""The names of the strategies of schema compatibility (org.apache.pulsar.common.policies.data)."""

SCHEMA_STRATEGIES = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
AUTO_UPDATE_STRATEGIES = {
    "FULL": "Full",
    "BACKWARD": "Backward",
    "FORWARD": "Forward",
    "NONE": "AlwaysCompatible",
}
"""The words of `set-schema-autoupdate-strategy` and SchemaAutoUpdateCompatibilityStrategy's names for them."""
