"""The rows of `persistent`, which is older than `topics`: most are rows of `topics` with fewer options."""

from magnetar.server.tools.admin import (
    topic_messages_table,
    topic_storage_table,
    topic_subscriptions_table,
    topics_table,
)
from magnetar.server.tools.admin.command_table import FLAG, LIST, SUBSCRIPTION, Call, Command, Option
from magnetar.server.tools.admin.invocation import Invocation

_ROWS: dict[str, Command] = {
    command.name: command
    for table in (topics_table, topic_subscriptions_table, topic_messages_table, topic_storage_table)
    for command in table.COMMANDS
}
_ROLE = Option("--role", "the role", required=True)
_FORCE = Option("--force", "disconnect producers, consumers and replicators", FLAG)
_AS_IN_TOPICS = (
    "permissions",
    "lookup",
    "bundle-range",
    "unload",
    "truncate",
    "subscriptions",
    "unsubscribe",
    "stats-internal",
    "info-internal",
    "partitioned-stats-internal",
    "skip",
    "expire-messages-all-subscriptions",
    "get-partitioned-topic-metadata",
    "get-message-by-id",
    "last-message-id",
    "terminate",
    "compact",
    "compaction-status",
)


def _delete(invocation: Invocation) -> None:
    """Fails when the topic cannot be deleted, unlike `topics delete`."""
    query = (("force", "{force}"), ("deleteSchema", "true"))
    invocation.call(Call("DELETE", "{topic}", query))


class _WithDefaults:
    """Runs a row of `topics` with fixed values for options that are missing here."""

    def __init__(self, command: Command, defaults: dict[str, object]) -> None:
        self._command = command
        self._defaults = defaults

    def __call__(self, invocation: Invocation) -> None:
        Invocation(self._command, {**self._defaults, **invocation.values}, invocation.http, invocation.form).run()


_NO_SYSTEM_TOPICS = {"include-system-topic": False, "bundle": None}
_STATS = {
    "get-precise-backlog": False,
    "get-subscription-backlog-size": False,
    "get-earliest-time-in-backlog": False,
}


def _row(name: str, options: tuple[Option, ...], **defaults: object) -> Command:
    return _ROWS[name]._replace(action=_WithDefaults(_ROWS[name], defaults), options=options, message="")


COMMANDS = tuple(
    command._replace(aliases=(), examples=command.examples[:1])
    for command in (
        *(_ROWS[name] for name in _AS_IN_TOPICS),
        _row("list", (), **_NO_SYSTEM_TOPICS),
        _row("list-partitioned-topics", (), **_NO_SYSTEM_TOPICS),
        _ROWS["grant-permission"]._replace(
            options=(_ROLE, Option("--actions", "produce or consume; may be given several times", LIST, required=True)),
            examples=("my-topic --role reader --actions consume",),
        ),
        _ROWS["revoke-permission"]._replace(options=(_ROLE,), examples=("my-topic --role reader",)),
        _ROWS["delete"]._replace(
            action=_delete, arguments=_ROWS["unload"].arguments, options=(_FORCE,), summary="Deletes a topic."
        ),
        _row(
            "create-subscription",
            (SUBSCRIPTION, topic_subscriptions_table.MESSAGE_ID, topic_subscriptions_table.PROPERTY),
        ),
        _row("stats", (topic_storage_table.PRECISE,), **_STATS),
        _row("partitioned-stats", (topic_storage_table.PER_PARTITION,), **_STATS),
        _ROWS["clear-backlog"]._replace(name="skip-all"),
        _ROWS["expire-messages"]._replace(
            action=Call("POST", "{topic}/subscription/{subscription}/expireMessages/{expireTime}"),
            options=(SUBSCRIPTION, topic_subscriptions_table.EXPIRE_TIME),
        ),
        _row("create-partitioned-topic", (topics_table.PARTITIONS,), metadata=None),
        _row("update-partitioned-topic", (topics_table.PARTITIONS,), **{"update-local-only": False, "force": False}),
        _row("delete-partitioned-topic", (_FORCE,)),
        _row("peek-messages", (SUBSCRIPTION, topic_messages_table.COUNT)),
        _row("reset-cursor", topic_subscriptions_table.RESET_OPTIONS),
    )
)
