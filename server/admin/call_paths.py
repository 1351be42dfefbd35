"""The beginnings that many paths of calls share, and functions that read the namespace or the topic from a path and
check the name as Apache does."""

from magnetar.server.web.calls import Call, Refusal
from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import NamespaceName, TopicName

NAMESPACES = "/admin/v2/namespaces/{tenant}/{namespace}"
TOPICS = "/admin/v2/{domain}/{tenant}/{namespace}"
TOPIC = f"{TOPICS}/{{topic}}"


def namespace_of(call: Call) -> str:
    """Returns the namespace that the call's path names, as `tenant/namespace`. Raises Refusal 412 when the name is not
    valid."""
    try:
        name = NamespaceName.parse(f"{call.parts['tenant']}/{call.parts['namespace']}")
    except InvalidTopicName:
        raise Refusal(412, "Namespace name is not valid") from None
    if {name.tenant, name.name} & {".", ".."}:
        raise Refusal(412, "Namespace name is not valid")
    return str(name)


def topic_of(call: Call) -> TopicName:
    """Returns the topic that the call's path names. A topic without a domain in the path is persistent. Raises
    InvalidTopicName when the name is not valid."""
    parts = call.parts
    domain = parts.get("domain", "persistent")
    return TopicName.parse(f"{domain}://{parts['tenant']}/{parts['namespace']}/{parts['topic']}")
