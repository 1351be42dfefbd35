"""What the tests of faults read: messages of a consumer, of a whole topic, and a backlog."""

import pulsar

from magnetar.testing import Server

RECEIVE_MS = 60_000
SHORT_TIMEOUT_MS = 500
"""The send timeout of producers whose receipts do not come."""


def receive(consumer: pulsar.Consumer) -> bytes:
    return bytes(consumer.receive(RECEIVE_MS).data())


def stored(client: pulsar.Client, topic: str, last: bytes) -> list[bytes]:
    """Returns the messages of a topic up to the first one with the content `last`."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = [bytes(reader.read_next(RECEIVE_MS).data())]
    while found[-1] != last:
        found.append(bytes(reader.read_next(RECEIVE_MS).data()))
    reader.close()
    return found


def backlog(server: Server, topic: str, subscription: str) -> int:
    path = topic.replace("://", "/")
    return int(server.admin.call("GET", f"/admin/v2/{path}/stats")["subscriptions"][subscription]["msgBacklog"])
