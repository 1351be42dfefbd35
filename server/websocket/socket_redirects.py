"""Sends the client of a socket to the broker that owns the socket's topics, before the socket is opened.

Apache's WebSocket service is a client of the brokers and serves all topics. Here a socket is served by the broker that
owns the socket's topics, just as a client of the binary protocol is. Any other broker answers the handshake with a
redirect: status 307 with an address of the scheme `ws` or `wss`.
"""

from magnetar.server.broker.broker import Broker
from magnetar.server.web.calls import Moved, Refusal
from magnetar.server.web.place_rules import location, web_url_of
from magnetar.server.websocket.websocket_path_rules import SocketPath
from pulsar_proto.names import TopicName


async def check_owned_here(broker: Broker, path: SocketPath, target: str, *, is_https: bool) -> None:
    """Returns when this broker owns all topics of a socket; topics without an owner get one. Raises Moved
    when another broker owns all topics, Refusal 503 when the topics have several owners, and PulsarError."""
    owners = {}
    for topic in await _partitions(broker, path):
        found = (await broker.lookups.find_topic(topic)).broker
        owners[found.broker_id] = found
    elsewhere = [owner for broker_id, owner in owners.items() if broker_id != broker.broker_id]
    if not elsewhere:
        return
    if len(owners) > 1:
        raise Refusal(503, f"{path}: its topics are owned by several brokers ({', '.join(sorted(owners))})")
    url = web_url_of(elsewhere[0].urls, is_https=is_https)
    raise Moved(location(target, url.replace("http", "ws", 1)))


async def _partitions(broker: Broker, path: SocketPath) -> list[TopicName]:
    names: list[TopicName] = []
    for topic in path.topics:
        await broker.service.catalog.check_namespace(topic.namespace)
        record = await broker.service.catalog.partitioned.get(topic)
        names += [topic] if record is None else map(topic.partition, range(record.partitions))
    return names
