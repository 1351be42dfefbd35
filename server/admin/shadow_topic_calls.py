"""The calls on shadow topics, which show another topic's messages without a copy. This broker does not have shadow
topics.

No topic ever has a shadow, and a call that gives a shadow to a topic is refused, because a shadow that gets no messages
would be worse than no shadow.

Source: PersistentTopics (getShadowTopics, setShadowTopics), PIP-180; answers recorded from Pulsar 4.0.7.
"""

from collections.abc import Mapping

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC
from magnetar.server.admin.topic_policy_calls import checked_topic
from magnetar.server.web.absent_calls import NO_SHADOW_TOPICS
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic_policy
from magnetar.server.web.places import Place
from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import TopicName

SOURCE = "PULSAR.SHADOW_SOURCE"
"""The property that makes a new topic the shadow of another topic (PIP-180)."""


def check_no_shadow(properties: Mapping[str, str]) -> None:
    """Checks the properties of a new topic. Raises Refusal 503 when the properties make the topic a shadow."""
    if SOURCE in properties:
        raise Refusal(503, NO_SHADOW_TOPICS)


async def get(call: Call) -> Answer:
    await checked_topic(call)
    return EMPTY


async def put(call: Call) -> Answer:
    """Refuses to set shadows. Raises Refusal 412 when no topic is named or one of the named topics does not exist,
    otherwise 503."""
    await checked_topic(call)
    names = bodies.strings(bodies.present(bodies.parse(call.body)))
    if not names:
        raise Refusal(412, "Cannot specify empty shadow topics, please use remove command instead.")
    for name in names:
        if not await _exists(call, name):
            raise Refusal(412, f"Shadow topic [{name}] not exists.")
    raise Refusal(503, NO_SHADOW_TOPICS)


async def _exists(call: Call, name: str) -> bool:
    catalog = call.broker.service.catalog
    try:
        topic = TopicName.parse(name)
    except InvalidTopicName:
        return False
    return await catalog.partitioned.get(topic) is not None or await catalog.topic_exists(topic)


async def delete(call: Call) -> Answer:
    await checked_topic(call)
    return NO_CONTENT


PATH = f"{TOPIC}/shadowTopics"
_WRITE = topic_policy("SHADOW_TOPIC", write=True)

ROUTES = (
    Route("GET", PATH, get, topic_policy("SHADOW_TOPIC", write=False), Place.TOPIC),
    Route("PUT", PATH, put, _WRITE, Place.TOPIC),
    Route("DELETE", PATH, delete, _WRITE, Place.TOPIC),
)
