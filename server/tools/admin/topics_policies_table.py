"""The rows of `topics` for policies. Those that `topicPolicies` has too are hidden in lists."""

from magnetar.server.tools.admin.body_rules import comma_list
from magnetar.server.tools.admin.command_table import (
    FLAG,
    LINES,
    PERSISTENT_TOPIC_ARGUMENT,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.offload_options import OF_TOPICS
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy, commands_of_policy
from magnetar.server.tools.admin.shared_policies import OFFLOAD
from magnetar.server.tools.admin.topic_policy_rows import BACKLOG_QUOTAS, DEDUPLICATION, POLICIES

_HIDDEN = (
    *POLICIES,
    BACKLOG_QUOTAS._replace(names=("get-backlog-quotas", "", "")),
    OFFLOAD._replace(options=OF_TOPICS, applied=APPLIED),
    DEDUPLICATION._replace(names=("get-deduplication-enabled", "", ""), verbs=("get",)),
)
_SHOWN = (
    Policy(
        "replication-clusters",
        "replication",
        "the clusters to which a topic is replicated",
        (Option("-c --clusters", "names of clusters, comma separated", required=True),),
        lambda values: comma_list(values["clusters"]),
        "-c us-west,us-east",
        APPLIED,
    ),
    Policy(
        "shadow-topics",
        "shadowTopics",
        "the shadow topics of a topic",
        (Option("-t --topics", "names of topics, comma separated", required=True),),
        lambda values: comma_list(values["topics"]),
        "-t my-shadow",
        output=LINES,
        set_method="PUT",
    ),
)


def _on(_: Values) -> bool:
    return True


def _off(_: Values) -> bool:
    return False


_VALIDATION_PATH = "{topic}/schemaValidationEnforced"
COMMANDS = (
    *(
        command
        for policies, hidden in ((_SHOWN, False), (_HIDDEN, True))
        for policy in policies
        for command in commands_of_policy(policy, PERSISTENT_TOPIC_ARGUMENT, "my-topic", hidden=hidden)
    ),
    *(
        Command(
            f"{verb}-deduplication",
            f"Turns deduplication {state}.",
            Call("POST", "{topic}/deduplicationEnabled", body=_on if on else _off),
            (PERSISTENT_TOPIC_ARGUMENT,),
            examples=("my-topic",),
            hidden=True,
        )
        for verb, state, on in (("enable", "on", True), ("disable", "off", False))
    ),
    Command(
        "get-schema-validation-enforce",
        "Shows whether producers without a schema are refused.",
        Call("GET", _VALIDATION_PATH, (("applied", "{applied}"),)),
        (TOPIC_ARGUMENT,),
        (APPLIED,),
        VALUE,
        examples=("my-topic",),
    ),
    Command(
        "set-schema-validation-enforce",
        "Sets whether producers without a schema are refused.",
        Call("POST", _VALIDATION_PATH, body="enable"),
        (TOPIC_ARGUMENT,),
        (Option("-e --enable", "refuse them; without this option they are accepted", FLAG),),
        examples=("my-topic --enable",),
    ),
)
