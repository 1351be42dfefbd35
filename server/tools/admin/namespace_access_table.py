"""The rows of `namespaces` about who may do what, and which clusters are used."""

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.body_rules import auth_actions, comma_list, enabled
from magnetar.server.tools.admin.command_table import (
    COMMAS,
    LINES,
    MAP,
    NAMESPACE_ARGUMENT,
    QUOTED,
    RAW,
    SUBSCRIPTION,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.policy_rows import Policy, commands_of_policy
from magnetar.server.tools.admin.shared_policies import SUBSCRIPTION_TYPES_ENABLED
from magnetar.server.tools.admin.shared_policy_options import ENABLE_DISABLE

_EXAMPLE = "my-tenant/my-namespace"
_ONE = (NAMESPACE_ARGUMENT,)
_ROLE = Option("--role", "the role", required=True)
_CLUSTERS = (Option("-c --clusters", "names of clusters, comma separated", required=True),)
_AUTH_MODES = ("None", "Prefix")


def _clusters(values: Values) -> list[str]:
    return list(dict.fromkeys(comma_list(values["clusters"])))


def _auth_mode(values: Values) -> str:
    mode = str(values["subscription-auth-mode"])
    if mode not in _AUTH_MODES:
        raise UsageError(f"'{mode}' is not one of {', '.join(_AUTH_MODES)}")
    return mode


_POLICIES = (
    Policy(
        "clusters",
        "replication",
        "the clusters to which a namespace is replicated",
        _CLUSTERS,
        _clusters,
        "-c us-west,us-east",
        output=LINES,
        verbs=("get", "set"),
    ),
    Policy(
        "allowed-clusters",
        "allowedClusters",
        "the clusters in which a namespace may be used",
        _CLUSTERS,
        _clusters,
        "-c us-west,us-east",
        output=LINES,
        verbs=("get", "set"),
    ),
    SUBSCRIPTION_TYPES_ENABLED,
    Policy(
        "subscription-auth-mode",
        "subscriptionAuthMode",
        "whether names of subscriptions must begin with the role",
        (Option("-m --subscription-auth-mode", "None or Prefix", required=True),),
        _auth_mode,
        "-m Prefix",
        output=QUOTED,
        verbs=("get", "set"),
    ),
    Policy(
        "encryption-required",
        "encryptionRequired",
        "whether messages must be encrypted",
        ENABLE_DISABLE,
        enabled,
        "--enable",
        verbs=("get", "set"),
    ),
)
COMMANDS = (
    *(command for policy in _POLICIES for command in commands_of_policy(policy, NAMESPACE_ARGUMENT, _EXAMPLE)),
    Command(
        "permissions",
        "Shows who may use a namespace.",
        Call("GET", "{namespace}/permissions"),
        _ONE,
        output=MAP,
        examples=(_EXAMPLE,),
    ),
    Command(
        "grant-permission",
        "Lets a role use a namespace.",
        Call("POST", "{namespace}/permissions/{role}", body=auth_actions),
        _ONE,
        (
            _ROLE,
            Option(
                "--actions",
                "produce, consume, functions, sources, sinks, packages; comma separated",
                COMMAS,
                required=True,
            ),
        ),
        examples=(f"{_EXAMPLE} --role reader --actions consume",),
    ),
    Command(
        "revoke-permission",
        "Takes a role's permissions back.",
        Call("DELETE", "{namespace}/permissions/{role}"),
        _ONE,
        (_ROLE,),
        examples=(f"{_EXAMPLE} --role reader",),
    ),
    Command(
        "subscription-permission",
        "Shows who may use which subscriptions.",
        Call("GET", "{namespace}/permissions/subscription"),
        _ONE,
        output=MAP,
        examples=(_EXAMPLE,),
    ),
    Command(
        "grant-subscription-permission",
        "Lets roles use a subscription.",
        Call("POST", "{namespace}/permissions/subscription/{subscription}", body="roles"),
        _ONE,
        (SUBSCRIPTION, Option("-rs --roles", "the roles, comma separated", COMMAS, required=True)),
        examples=(f"{_EXAMPLE} -s my-subscription -rs reader1,reader2",),
    ),
    Command(
        "revoke-subscription-permission",
        "Takes a role's permission for a subscription back.",
        Call("DELETE", "{namespace}/permissions/{subscription}/{role}"),
        _ONE,
        (SUBSCRIPTION, Option("-r --role", "the role", required=True)),
        examples=(f"{_EXAMPLE} -s my-subscription -r reader1",),
    ),
    *(
        Command(
            name,
            summary,
            Call(method, "{namespace}/antiAffinity", body=body),
            _ONE,
            options,
            output,
            examples=(example,),
        )
        for name, summary, method, body, options, output, example in (
            (
                "get-anti-affinity-group",
                "Shows the anti-affinity group of a namespace.",
                "GET",
                None,
                (),
                RAW,
                _EXAMPLE,
            ),
            (
                "set-anti-affinity-group",
                "Puts a namespace into a group whose namespaces are spread over brokers.",
                "POST",
                lambda values: values["group"].encode(),
                (Option("-g --group", "the group", required=True),),
                "nothing",
                f"{_EXAMPLE} -g my-group",
            ),
            (
                "delete-anti-affinity-group",
                "Takes a namespace out of its group.",
                "DELETE",
                None,
                (),
                "nothing",
                _EXAMPLE,
            ),
        )
    ),
)
