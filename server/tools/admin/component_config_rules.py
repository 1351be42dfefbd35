"""Makes the configuration of a function, source or sink from the options of a command line.

Sources: CmdFunctions, CmdSources and CmdSinks (processArguments, mergeArgs), and the classes FunctionConfig,
SourceConfig and SinkConfig with the values that they have when nothing is given.
"""

import json
from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import Values

OLD_NAMES = {
    "className": "classname",
    "topicsPattern": "topics-pattern",
    "logTopic": "log-topic",
    "customSerdeInputs": "custom-serde-inputs",
    "outputSerdeClassName": "output-serde-classname",
    "functionConfigFile": "function-config-file",
    "processingGuarantees": "processing-guarantees",
    "userConfig": "user-config",
    "retainOrdering": "retain-ordering",
    "windowLengthCount": "window-length-count",
    "windowLengthDurationMs": "window-length-duration-ms",
    "slidingIntervalCount": "sliding-interval-count",
    "slidingIntervalDurationMs": "sliding-interval-duration-ms",
    "autoAck": "auto-ack",
    "timeoutMs": "timeout-ms",
    "destinationTopicName": "destination-topic-name",
    "deserializationClassName": "deserialization-classname",
    "sourceConfigFile": "source-config-file",
    "sourceConfig": "source-config",
    "subsName": "subs-name",
    "sinkConfigFile": "sink-config-file",
    "sinkConfig": "sink-config",
}
"""Options that pulsar-admin accepts by an old name as well."""
_COMMON = {
    "tenant": "tenant",
    "namespace": "namespace",
    "name": "name",
    "classname": "className",
    "processing-guarantees": "processingGuarantees",
    "parallelism": "parallelism",
    "log-topic": "logTopic",
    "custom-runtime-options": "customRuntimeOptions",
    "secrets": "secrets",
    "runtime-flags": "runtimeFlags",
}
_READING = {
    "cleanup-subscription": "cleanupSubscription",
    "inputs": "inputs",
    "topics-pattern": "topicsPattern",
    "input-specs": "inputSpecs",
    "dead-letter-topic": "deadLetterTopic",
    "retain-ordering": "retainOrdering",
    "retain-key-ordering": "retainKeyOrdering",
    "auto-ack": "autoAck",
    "timeout-ms": "timeoutMs",
}
FUNCTION_FIELDS = {
    **_COMMON,
    **_READING,
    "jar": "jar",
    "py": "py",
    "go": "go",
    "custom-serde-inputs": "customSerdeInputs",
    "custom-schema-inputs": "customSchemaInputs",
    "custom-schema-outputs": "customSchemaOutputs",
    "input-type-class-name": "inputTypeClassName",
    "output": "output",
    "output-type-class-name": "outputTypeClassName",
    "output-serde-classname": "outputSerdeClassName",
    "producer-config": "producerConfig",
    "schema-type": "outputSchemaType",
    "batch-builder": "batchBuilder",
    "forward-source-message-property": "forwardSourceMessageProperty",
    "subs-name": "subName",
    "subs-position": "subscriptionPosition",
    "skip-to-latest": "skipToLatest",
    "user-config": "userConfig",
    "max-message-retries": "maxMessageRetries",
}
SOURCE_FIELDS = {
    **_COMMON,
    "archive": "archive",
    "destination-topic-name": "topicName",
    "producer-config": "producerConfig",
    "batch-builder": "batchBuilder",
    "deserialization-classname": "serdeClassName",
    "schema-type": "schemaType",
    "source-config": "configs",
    "batch-source-config": "batchSourceConfig",
}
SINK_FIELDS = {
    **_COMMON,
    **_READING,
    "archive": "archive",
    "custom-serde-inputs": "topicToSerdeClassName",
    "custom-schema-inputs": "topicToSchemaType",
    "subs-name": "sourceSubscriptionName",
    "subs-position": "sourceSubscriptionPosition",
    "max-redeliver-count": "maxMessageRetries",
    "negative-ack-redelivery-delay-ms": "negativeAckRedeliveryDelayMs",
    "sink-config": "configs",
    "transform-function": "transformFunction",
    "transform-function-classname": "transformFunctionClassName",
    "transform-function-config": "transformFunctionConfig",
}
_JSON_FIELDS = {
    "batchSourceConfig",
    "configs",
    "customSchemaInputs",
    "customSchemaOutputs",
    "customSerdeInputs",
    "inputSpecs",
    "producerConfig",
    "secrets",
    "topicToSchemaType",
    "topicToSerdeClassName",
    "userConfig",
}
"""Fields whose options are JSON objects."""
_FLAGS = ("cleanup-subscription", "retain-ordering", "retain-key-ordering")
_WINDOW_FIELDS = {
    "window-length-count": "windowLengthCount",
    "window-length-duration-ms": "windowLengthDurationMs",
    "sliding-interval-count": "slidingIntervalCount",
    "sliding-interval-duration-ms": "slidingIntervalDurationMs",
}
FUNCTION_DEFAULTS = {
    "outputSchemaType": "",
    "forwardSourceMessageProperty": True,
    "subscriptionPosition": "Latest",
}
SINK_DEFAULTS = {"sourceSubscriptionPosition": "Latest"}


def with_new_names(values: Values) -> dict[str, Any]:
    """Returns the values with those of old names under the new ones, unless both were given."""
    merged = dict(values)
    for old, new in OLD_NAMES.items():
        if merged.get(new) in (None, False) and merged.get(old) not in (None, False):
            merged[new] = merged[old]
    return merged


def component_config(values: Values, fields: dict[str, str], base: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration: `base`, and over it what was given. Flags count only when they were given."""
    config = dict(base)
    for key, field in fields.items():
        value = values.get(key)
        if value is None or (value is False and key in _FLAGS):
            continue
        if field in _JSON_FIELDS:
            value = _json_object(value, key)
        config[field] = value.split(",") if field == "inputs" else value
    _put_group(config, "resources", {key: values.get(key) for key in ("cpu", "ram", "disk")})
    _put_group(config, "windowConfig", {field: values.get(key) for key, field in _WINDOW_FIELDS.items()})
    return config


def _put_group(config: dict[str, Any], name: str, given: dict[str, Any]) -> None:
    found = {key: value for key, value in given.items() if value is not None}
    if found:
        config[name] = {**(config.get(name) or {}), **found}


def _json_object(text: str, key: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"--{key}: '{text}' is not a JSON object")
    return value


def infer_place(config: dict[str, Any]) -> None:
    """Fills in the tenant and the namespace, and the name from that of the class (functions.Utils.inferMissing…)."""
    if not config.get("name") and config.get("className"):
        config["name"] = config["className"].rpartition(".")[2]
    config["tenant"] = config.get("tenant") or "public"
    config["namespace"] = config.get("namespace") or "default"
