"""The options with which `sinks create`, `sinks update` and `sinks localrun` describe a sink."""

from magnetar.server.tools.admin import local_run_options
from magnetar.server.tools.admin.command_table import BOOLEAN, FLAG, FLOAT, INTEGER, LONG, Option
from magnetar.server.tools.admin.local_run_options import GUARANTEES

CREATE = (
    Option("--tenant", "the sink's tenant"),
    Option("--namespace", "the sink's namespace"),
    Option("--name", "the sink's name"),
    Option("-t --sink-type", "the sinks's connector provider"),
    Option("--cleanup-subscription", "delete the subscription together with the sink", FLAG),
    Option("-i --inputs", "the sink's input topic or topics"),
    Option(
        "--topicsPattern",
        "a regular expression of the topics to read",
        hidden=True,
    ),
    Option("--topics-pattern", "a regular expression of the topics to read"),
    Option("--subsName", "the name of its subscription", hidden=True),
    Option("--subs-name", "the name of its subscription"),
    Option(
        "--subs-position",
        "where its subscription begins",
        choices=("Latest", "Earliest"),
    ),
    Option("--customSerdeInputs", "the map of input topics to SerDe class names", hidden=True),
    Option("--custom-serde-inputs", "the map of input topics to SerDe class names"),
    Option("--custom-schema-inputs", "the map of input topics to Schema types or class names"),
    Option("--input-specs", "the map of inputs to custom configuration"),
    Option(
        "--max-redeliver-count",
        "how often a message is delivered before it goes to the dead letter topic",
        INTEGER,
    ),
    Option("--dead-letter-topic", "name of the dead topic where the failing messages will be sent"),
    Option("--processingGuarantees", "the processing guarantees applied to the sink", choices=GUARANTEES, hidden=True),
    Option("--processing-guarantees", "the processing guarantees applied to the sink", choices=GUARANTEES),
    Option("--retainOrdering", "sink consumes and sinks messages in order", FLAG, hidden=True),
    Option("--retain-ordering", "sink consumes and sinks messages in order", FLAG),
    Option("--parallelism", "the sink's parallelism factor", INTEGER),
    Option("--retain-key-ordering", "sink consumes and processes messages in key order", FLAG),
    Option("-a --archive", "path to the archive file for the sink"),
    Option("--className", "the sink's class name if archive is file-url-path", hidden=True),
    Option("--classname", "the sink's class name if archive is file-url-path"),
    Option("--sinkConfigFile", "a file with all of this as JSON", hidden=True),
    Option("--sink-config-file", "a file with all of this as JSON"),
    Option("--cpu", "the CPU that needs to be allocated per sink instance", FLOAT),
    Option("--ram", "the RAM that need to be allocated per sink instance", LONG),
    Option("--disk", "the disk that need to be allocated per sink instance", LONG),
    Option("--sinkConfig", "user defined configs key/values", hidden=True),
    Option("--sink-config", "user defined configs key/values"),
    Option("--auto-ack", "whether or not the framework will automatically acknowledge messages", BOOLEAN),
    Option("--timeout-ms", "the message timeout in milliseconds", LONG),
    Option("--negative-ack-redelivery-delay-ms", "the negative ack message redelivery delay in milliseconds", LONG),
    Option("--custom-runtime-options", "A string that encodes options to customize the runtime"),
    Option("--secrets", "by the name of a secret, how it is fetched"),
    Option("--transform-function", "transform function applied before the Sink"),
    Option("--transform-function-classname", "the transform function class name"),
    Option("--transform-function-config", "configuration of the transform function applied before the Sink"),
    Option("--log-topic", "the topic to which the logs of a Pulsar Sink are produced"),
    Option("--runtime-flags", "any flags that you want to pass to a runtime"),
)
UPDATE = (
    *CREATE,
    Option("--update-auth-data", "replace the login that it uses", FLAG),
)
LOCAL_RUN = (
    *CREATE,
    *local_run_options.LOCAL_RUN,
)
