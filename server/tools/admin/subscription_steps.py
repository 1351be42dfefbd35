"""The commands of subscriptions that move them, for `topics`, `persistent` and `subscriptions`."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import CommandError, UsageError
from magnetar.server.tools.admin.command_table import Call
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.topic_steps import body_of_position
from magnetar.server.tools.admin.value_rules import EARLIEST, LATEST, MessageId, message_id

_BASE = "{topic}/subscription/{subscription}"


def position(text: str, partition_index: int = -1) -> MessageId:
    """Raises CommandError."""
    try:
        return message_id(text, partition_index)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _named_position(text: str) -> MessageId:
    named = {"latest": LATEST, "earliest": EARLIEST}.get(text)
    return named or position(text)


def create_subscription(invocation: Invocation) -> None:
    at = _named_position(invocation["messageId"])
    properties = invocation["property"]
    body = body_of_position(at)
    if properties:
        body = {**at.reset_body(), "properties": properties}
    replicated = (("replicated", "true" if invocation.values.get("replicated") else "false"),)
    invocation.call(Call("PUT", _BASE, replicated, lambda _: body))


def update_properties(invocation: Invocation) -> None:
    properties = invocation["property"] or {}
    if not properties and not invocation["clear"]:
        raise UsageError("If you want to clear the properties you have to use --clear")
    if properties and invocation["clear"]:
        raise UsageError("If you set --clear then you should not pass any properties")
    invocation.call(Call("PUT", _BASE + "/properties", body=lambda _: properties))


def show_properties(invocation: Invocation) -> None:
    """Shows them on one line, as Java does only here."""
    from magnetar.server.tools.admin.invocation import TEXT_FORMAT
    from magnetar.server.tools.admin.jackson_rules import compact

    properties = invocation.get(_BASE + "/properties")
    if invocation.form == TEXT_FORMAT:
        invocation.say(compact(properties))
    else:
        invocation.show(properties)


def reset_cursor(invocation: Invocation) -> None:
    """Moves a subscription to a message id, or to the first message of a time."""
    import time

    text, back_ms = invocation["messageId"], invocation["time"]
    if text:
        at = _named_position(text)
        body = at.reset_body(excluded=bool(invocation.values.get("exclude-reset-position")))
        invocation.call(Call("POST", _BASE + "/resetcursor", body=lambda _: body))
    elif back_ms is not None:
        timestamp = int(time.time() * 1_000) - back_ms
        invocation.call(Call("POST", f"{_BASE}/resetcursor/{timestamp}"))
    else:
        raise CommandError("Either Timestamp (--time) or messageId (--messageId) has to be provided to reset cursor")


def expire_messages(invocation: Invocation) -> None:
    seconds, text = invocation["expireTime"], invocation["position"]
    if seconds >= 0 and text:
        raise UsageError("Can't expire message by time and by message position at the same time.")
    if seconds >= 0:
        invocation.call(Call("POST", _BASE + "/expireMessages/{expireTime}"))
    elif text:
        at = position(text, invocation.topic.partition_index)
        body = at.reset_body(excluded=invocation["exclude-reset-position"])
        invocation.call(Call("POST", _BASE + "/expireMessages", body=lambda _: body))
    else:
        raise UsageError(
            "Either time (--expireTime) or message position (--position) has to be provided to expire messages"
        )


def analyze_backlog(invocation: Invocation) -> None:
    body: dict[str, Any] | None = None
    if invocation["position"]:
        body = position(invocation["position"], invocation.topic.partition_index).reset_body()
    answer = invocation.call(Call("POST", _BASE + "/analyzeBacklog", body=lambda _: body))
    invocation.show(answer.json())


def show_backlog_size(invocation: Invocation) -> None:
    text = invocation["messageId"]
    at = EARLIEST if text == "-1:-1" else position(text)
    answer = invocation.call(Call("PUT", "{topic}/backlogSize", body=lambda _: body_of_position(at)))
    invocation.show(answer.json())
