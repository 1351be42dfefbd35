"""The topics of a namespace. Source: NamespacesBase.internalGetListOfTopics; real answers of 4.0.7."""

from pulsar_proto.names import NamespaceName, TopicName
from server.topic_list import is_system_topic
from server.web.calls import Answer, Call, Refusal

PERSISTENT_MODES = ("PERSISTENT", "ALL")
MODES = (*PERSISTENT_MODES, "NON_PERSISTENT")


async def topics(call: Call) -> Answer:
    """`/namespaces/{tenant}/{namespace}/topics?mode=&includeSystemTopic=`. Non-persistent ones do not exist here."""
    mode = call.query.get("mode", "PERSISTENT").upper()
    if mode not in MODES:
        raise Refusal(404, f"There is no mode {mode}")
    listed = await _list(call)
    return listed if mode in PERSISTENT_MODES else []


async def persistent_topics(call: Call) -> Answer:
    """`/persistent/{tenant}/{namespace}`."""
    return await _list(call)


async def _list(call: Call) -> list[str]:
    service = call.broker.service
    namespace = str(NamespaceName.parse("/".join(call.parts)))
    if not await service.namespace_exists(namespace):
        raise Refusal(404, "Namespace does not exist")
    names = await service.topics_of(namespace)
    if call.flag("includeSystemTopic"):
        return names
    return [name for name in names if not is_system_topic(TopicName.parse(name))]
