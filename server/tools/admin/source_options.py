"""The options with which `sources create`, `sources update` and `sources localrun` describe a source."""

from magnetar.server.tools.admin import local_run_options
from magnetar.server.tools.admin.command_table import FLAG, FLOAT, INTEGER, LONG, Option
from magnetar.server.tools.admin.local_run_options import GUARANTEES

CREATE = (
    Option("--tenant", "the source's tenant"),
    Option("--namespace", "the source's namespace"),
    Option("--name", "the source's name"),
    Option("-t --source-type", "the source's connector provider"),
    Option(
        "--processingGuarantees", "the processing guarantees applied to the Source", choices=GUARANTEES, hidden=True
    ),
    Option("--processing-guarantees", "the processing guarantees applied to the source", choices=GUARANTEES),
    Option("-o --destinationTopicName", "the Pulsar topic to which data is sent", hidden=True),
    Option("--destination-topic-name", "the Pulsar topic to which data is sent"),
    Option("--producer-config", "the custom producer configuration"),
    Option("--batch-builder", "batchBuilder provides two types of batch construction methods"),
    Option("--deserializationClassName", "the SerDe classname for the source", hidden=True),
    Option("--deserialization-classname", "the SerDe classname for the source"),
    Option("-st --schema-type", "the schema type (either a builtin schema like 'avro', 'json', etc"),
    Option("--parallelism", "the source's parallelism factor", INTEGER),
    Option("-a --archive", "the path to the NAR archive for the Source"),
    Option("--className", "the source's class name if archive is file-url-path", hidden=True),
    Option("--classname", "the source's class name if archive is file-url-path"),
    Option("--sourceConfigFile", "a file with all of this as JSON", hidden=True),
    Option("--source-config-file", "a file with all of this as JSON"),
    Option("--cpu", "the CPU that needs to be allocated per source instance", FLOAT),
    Option("--ram", "the RAM that need to be allocated per source instance", LONG),
    Option("--disk", "the disk that need to be allocated per source instance", LONG),
    Option("--sourceConfig", "source config key/values", hidden=True),
    Option("--source-config", "source config key/values"),
    Option("--batch-source-config", "batch source config key/values"),
    Option("--custom-runtime-options", "A string that encodes options to customize the runtime"),
    Option("--secrets", "by the name of a secret, how it is fetched"),
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
