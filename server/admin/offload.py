"""Moving ledgers to other storage, which this broker does not do: nothing ever ran, and nothing is begun.

Source: PersistentTopicsBase.internalTriggerOffload, internalOffloadStatus; real answers of 4.0.7, whose broker without
an offloader says that it began, and tells the failure only to who asks for the status.
"""

from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import EARLIEST
from server.admin.paths import TOPIC, topic_of
from server.admin.topics import loaded, message_id, partitions_of
from server.topics.topic import Topic
from server.web.absent import NO_OFFLOADING
from server.web.calls import Answer, Call, Refusal, Route
from server.web.needs import topic


async def status(call: Call) -> Answer:
    await _loaded(call)
    return {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": message_id(EARLIEST, -1)}


async def trigger(call: Call) -> Answer:
    await _loaded(call)
    raise Refusal(405, NO_OFFLOADING)


async def _loaded(call: Call) -> Topic:
    name = topic_of(call)
    if not name.is_persistent or await partitions_of(call, name):
        raise TopicNotFound(f"Topic {name.full} not found")
    return await loaded(call)


ROUTES = (
    Route("GET", f"{TOPIC}/offload", status, topic("OFFLOAD")),
    Route("PUT", f"{TOPIC}/offload", trigger, topic("OFFLOAD")),
)
