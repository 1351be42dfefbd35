"""The rows of `ns-isolation-policy`."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import (
    COMMA_PAIRS,
    COMMAS,
    LINES,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.java_texts import show_isolation_policies

_CLUSTER = Argument("cluster", "the cluster's name")
_POLICY = Argument("policy", "the policy's name")
_PATH = "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"
_PARAMETERS = {"min_limit", "usage_threshold"}


def _policy(values: Values) -> dict[str, Any]:
    for name in ("namespaces", "primary"):
        if not any(values[name]):
            raise UsageError(f"unable to parse {name} parameter list: {values[name]}")
    kind, parameters = values["auto-failover-policy-type"], values["auto-failover-policy-params"]
    if kind != "min_available":
        raise UsageError(f"Unknown auto failover policy type specified : {kind}")
    if set(parameters) != _PARAMETERS:
        raise UsageError(f"Unknown auto failover policy params specified : {parameters}")
    body: dict[str, Any] = {
        name: [each for each in values[name] or () if each] for name in ("namespaces", "primary", "secondary")
    }
    body["auto_failover_policy"] = {"parameters": parameters, "policy_type": kind}
    return body if values["unload-scope"] is None else {**body, "unload_scope": values["unload-scope"]}


COMMANDS = (
    Command(
        "set",
        "Sets which brokers serve which namespaces.",
        Call("POST", _PATH + "/{policy}", body=_policy),
        (_CLUSTER, _POLICY),
        (
            Option("--namespaces", "regular expressions of namespaces, comma separated", COMMAS, required=True),
            Option("--primary", "regular expressions of the brokers that serve them", COMMAS, required=True),
            Option("--secondary", "regular expressions of the brokers that serve them else", COMMAS),
            Option("--auto-failover-policy-type", "min_available", required=True),
            Option("--auto-failover-policy-params", "min_limit=1,usage_threshold=80", COMMA_PAIRS, required=True),
            Option(
                "--unload-scope",
                "which namespaces are moved now: all_matching, none, changed",
                choices=("all_matching", "none", "changed"),
            ),
        ),
        examples=(
            "us-west my-policy --namespaces 'my-tenant/.*' --primary 'broker[12].*' "
            "--auto-failover-policy-type min_available --auto-failover-policy-params min_limit=1,usage_threshold=80",
        ),
    ),
    Command(
        "get",
        "Shows a policy.",
        Call("GET", _PATH + "/{policy}"),
        (_CLUSTER, _POLICY),
        output=VALUE,
        examples=("us-west my-policy",),
    ),
    Command("list", "Lists the policies.", show_isolation_policies, (_CLUSTER,), examples=("us-west",)),
    Command(
        "delete",
        "Deletes a policy.",
        Call("DELETE", _PATH + "/{policy}"),
        (_CLUSTER, _POLICY),
        examples=("us-west my-policy",),
    ),
    Command(
        "brokers",
        "Shows the policies of all brokers.",
        Call("GET", _PATH + "/brokers"),
        (_CLUSTER,),
        output=LINES,
        examples=("us-west",),
    ),
    Command(
        "broker",
        "Shows the policies of a broker.",
        Call("GET", _PATH + "/brokers/{broker}"),
        (_CLUSTER,),
        (Option("--broker", "the broker's id, host:port", required=True),),
        VALUE,
        examples=("us-west --broker b1:8080",),
    ),
)
