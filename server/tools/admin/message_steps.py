"""The commands that show messages: they read the headers and the body of the REST interface's answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.server.tools.admin.admin_errors import CommandError
from magnetar.server.tools.admin.command_table import MAP, Call
from magnetar.server.tools.admin.hex_dump_rules import pretty_hex_dump
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.connection.connection_errors import AdminCallError

if TYPE_CHECKING:
    from magnetar.server.tools.connection.http_client import Answer

BATCH = "X-Pulsar-num-batch-message"
BATCH_SIZE = "X-Pulsar-batch-size"
MARKERS = {
    10: "REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST",
    11: "REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE",
    12: "REPLICATED_SUBSCRIPTION_SNAPSHOT",
    13: "REPLICATED_SUBSCRIPTION_UPDATE",
    20: "TXN_COMMITTING",
    21: "TXN_COMMIT",
    22: "TXN_ABORT",
}
"""The kinds of PulsarMarkers.proto."""
BETWEEN_MESSAGES = "-------------------------------------------------------------------------\n"


class ShownMessage(NamedTuple):
    """What the tool shows of a message; times are in milliseconds."""

    message_id: str
    publish_time: int
    event_time: int
    deliver_at: int
    marker: int | None
    broker_timestamp: int | None
    broker_index: int | None
    properties: dict[str, str]
    payload: bytes


def milliseconds(text: str | None) -> int:
    """Returns the time of a header or of an option such as 2024-01-02T03:04:05.678Z. Raises CommandError."""
    from datetime import datetime

    if text is None:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1_000)
    except ValueError:
        raise CommandError(f"'{text}' is not a time such as 2024-01-02T03:04:05.678Z") from None


def messages_of(answer: "Answer", *, markers: bool = True, committed_only: bool = False) -> list[ShownMessage]:
    """Returns the messages of an answer: each of a batch, none for what is to be left out (TopicsImpl's
    getMessagesFromHttpResponse)."""
    import json

    headers = answer.headers
    properties = {}
    if "x-pulsar-marker-type" in headers and not markers:
        return []
    for state in ("X-Pulsar-txn-aborted", "X-Pulsar-txn-uncommitted"):
        if headers.get(state.lower(), "").lower() == "true":
            if committed_only:
                return []
            properties[state] = "true"
    for name in (BATCH_SIZE, BATCH):
        if name.lower() in headers:
            properties[name] = headers[name.lower()]
    properties |= json.loads(headers.get("x-pulsar-property", "{}"))
    whole = ShownMessage(
        message_id=headers.get("x-pulsar-message-id", ""),
        publish_time=milliseconds(headers.get("x-pulsar-publish-time")),
        event_time=milliseconds(headers.get("x-pulsar-event-time")),
        deliver_at=milliseconds(headers.get("x-pulsar-deliver-at-time")),
        marker=_number(headers, "x-pulsar-marker-type"),
        broker_timestamp=milliseconds(headers.get("x-pulsar-broker-entry-timestamp")) or None,
        broker_index=_number(headers, "x-pulsar-broker-entry-index"),
        properties=dict(sorted(properties.items())),
        payload=answer.body,
    )
    encrypted = headers.get("x-pulsar-is-encrypted", "").lower() == "true"
    return [whole] if encrypted or BATCH.lower() not in headers else _of_batch(whole)


def _number(headers: Mapping[str, str], name: str) -> int | None:
    return int(headers[name]) if name in headers else None


def _of_batch(whole: ShownMessage) -> list[ShownMessage]:
    from pulsar_proto.records.payload import split_batch

    messages = []
    for index, (metadata, payload) in enumerate(split_batch(whole.payload, int(whole.properties[BATCH]))):
        own = {pair.key: pair.value for pair in metadata.properties}
        messages.append(
            whole._replace(
                message_id=f"{whole.message_id}:{index}",
                properties=dict(sorted((whole.properties | own).items())),
                payload=bytes(payload),
            )
        )
    return messages


def peek_messages(invocation: Invocation) -> None:
    """Shows the first messages of a subscription's backlog, an entry a call until there is none more."""
    import sys

    left = invocation["count"]
    if left <= 0:
        raise CommandError("--count must be above 0")
    committed_only = invocation.values.get("transaction-isolation-level") == "READ_COMMITTED"
    shown: list[ShownMessage] = []
    nth = 1
    while left > 0:
        try:
            answer = invocation.call(Call("GET", f"{{topic}}/subscription/{{subscription}}/position/{nth}"))
        except AdminCallError as error:
            if error.status != 404 or not shown:
                if error.status == 404:
                    sys.stderr.write(f"{error.reason}\n")
                    break
                raise
            break
        markers = bool(invocation.values.get("show-server-marker"))
        found = messages_of(answer, markers=markers, committed_only=committed_only)
        shown += found[:left]
        left -= len(found)
        nth += 1
    _show(invocation, shown, markers=bool(invocation.values.get("show-server-marker")))


def examine_message(invocation: Invocation) -> None:
    query = (("initialPosition", "{initialPosition}"), ("messagePosition", "{messagePosition}"))
    _show(invocation, messages_of(invocation.call(Call("GET", "{topic}/examinemessage", query)))[:1])


def get_message_by_id(invocation: Invocation) -> None:
    answer = invocation.call(Call("GET", "{topic}/ledger/{ledgerId}/entry/{entryId}"))
    _show(invocation, messages_of(answer)[:1], redelivery=True)


def get_message_id(invocation: Invocation) -> None:
    timestamp = milliseconds(invocation["datetime"])
    answer = invocation.get(f"{{topic}}/messageid/{timestamp}")
    if answer is None:
        invocation.say(f"Cannot find any messages based on timestamp {timestamp}")
    else:
        invocation.show(answer)


def _show(
    invocation: Invocation, messages: list[ShownMessage], *, markers: bool = False, redelivery: bool = False
) -> None:
    if invocation.form != TEXT_FORMAT:
        invocation.show([_as_object(message) for message in messages])
        return
    for index, message in enumerate(messages):
        if index:
            invocation.say(BETWEEN_MESSAGES)
        _show_one(invocation, message, markers=markers, redelivery=redelivery)


def _show_one(invocation: Invocation, message: ShownMessage, *, markers: bool, redelivery: bool) -> None:
    kind = "Batch Message ID" if message.message_id.count(":") > 1 else "Message ID"
    lines: list[tuple[str, Any]] = [
        (kind, message.message_id),
        ("Publish time", message.publish_time),
        ("Event time", message.event_time),
    ]
    if redelivery:
        lines.append(("Redelivery count", 0))
    if message.deliver_at:
        lines.append(("Deliver at time", message.deliver_at))
    if markers and message.marker is not None:
        lines.append(("Marker Type", MARKERS.get(message.marker, message.marker)))
    if message.broker_timestamp is not None:
        lines.append(("Broker entry metadata timestamp", message.broker_timestamp))
    if message.broker_index is not None:
        lines.append(("Broker entry metadata index", message.broker_index))
    for name, value in lines:
        invocation.say(f"{name}: {value}")
    if message.properties:
        invocation.say("Properties:")
        invocation.show(message.properties, MAP)
    invocation.say(pretty_hex_dump(message.payload))


def _as_object(message: ShownMessage) -> dict[str, Any]:
    """Returns a message for JSON, YAML and tables, with its payload as a text where it is one."""
    import base64

    try:
        payload = {"payload": message.payload.decode("utf-8")}
    except UnicodeDecodeError:
        payload = {"payloadBase64": base64.b64encode(message.payload).decode("ascii")}
    return {
        "messageId": message.message_id,
        "publishTime": message.publish_time,
        "eventTime": message.event_time,
        "properties": message.properties,
        **payload,
    }
