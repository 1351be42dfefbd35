"""The rows of `brokers`."""

from magnetar.server.tools.admin.command_table import (
    FLAG,
    INTEGER,
    LINES,
    MAP,
    RAW,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.field_orders import INTERNAL_CONFIGURATION

_CLUSTER = Argument("cluster", "the cluster's name")
_CONFIG = Option("-c --config", "the key", required=True)
_DYNAMIC = "/admin/v2/brokers/configuration"
COMMANDS = (
    Command(
        "list",
        "Lists the brokers of a cluster that are up.",
        Call("GET", "/admin/v2/brokers/{cluster}"),
        (_CLUSTER,),
        output=LINES,
        examples=("standalone",),
    ),
    Command(
        "leader-broker",
        "Shows the broker that leads the cluster.",
        Call("GET", "/admin/v2/brokers/leaderBroker"),
        output=VALUE,
        examples=("",),
    ),
    Command(
        "namespaces",
        "Lists the bundles that a broker owns.",
        Call("GET", "/admin/v2/brokers/{cluster}/{url}/ownedNamespaces"),
        (_CLUSTER,),
        (Option("-u --url", "the broker's id, host:port", required=True),),
        MAP,
        examples=("standalone -u localhost:8080",),
    ),
    Command(
        "update-dynamic-config",
        "Sets a key of the configuration in all brokers.",
        Call("POST", _DYNAMIC + "/{config}/{value}"),
        (),
        (_CONFIG, Option("-v --value", "the value", required=True)),
        examples=("-c dispatchThrottlingRateInMsg -v 1000",),
    ),
    Command(
        "delete-dynamic-config",
        "Takes such a key back.",
        Call("DELETE", _DYNAMIC + "/{config}"),
        (),
        (_CONFIG,),
        examples=("-c dispatchThrottlingRateInMsg",),
    ),
    Command(
        "list-dynamic-config",
        "Lists the keys that can be set in all brokers.",
        Call("GET", _DYNAMIC),
        output=LINES,
        examples=("",),
    ),
    Command(
        "get-all-dynamic-config",
        "Shows the keys that are set in all brokers.",
        Call("GET", _DYNAMIC + "/values"),
        output=MAP,
        examples=("",),
    ),
    Command(
        "get-internal-config",
        "Shows where the cluster keeps its metadata.",
        Call("GET", "/admin/v2/brokers/internal-configuration"),
        output=VALUE,
        order=INTERNAL_CONFIGURATION,
        examples=("",),
    ),
    Command(
        "get-runtime-config",
        "Shows the configuration of the broker.",
        Call("GET", _DYNAMIC + "/runtime"),
        output=MAP,
        examples=("",),
    ),
    Command(
        "healthcheck",
        "Lets the broker publish and receive a message.",
        Call("GET", "/admin/v2/brokers/health", (("topicVersion", "{topic-version}"),)),
        (),
        (Option("-tv --topic-version", "V1 or V2, the kind of names to use", choices=("V1", "V2")),),
        message="ok",
        examples=("",),
    ),
    Command(
        "backlog-quota-check",
        "Lets the broker check its backlog quotas now.",
        Call("GET", "/admin/v2/brokers/backlog-quota-check"),
        message="ok",
        examples=("",),
    ),
    Command(
        "version",
        "Shows the version of the broker.",
        Call("GET", "/admin/v2/brokers/version"),
        output=RAW,
        examples=("",),
    ),
    Command(
        "shutdown",
        "Stops the broker after its topics were handed over.",
        Call(
            "POST",
            "/admin/v2/brokers/shutdown",
            (("maxConcurrentUnloadPerSec", "{max-concurrent-unload-per-sec}"), ("forcedTerminateTopic", "{forced}")),
        ),
        (),
        (
            Option("-m --max-concurrent-unload-per-sec", "bundles a second; 0 = all at once", INTEGER, default=0),
            Option("-f --forced-terminate-topic", "close topics that still have clients", FLAG, called="forced"),
        ),
        message="Successfully shutdown broker gracefully",
        examples=("-m 4",),
    ),
)
