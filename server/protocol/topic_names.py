"""Parses topic names as clients' commands hold them."""

from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import TopicName


def topic_name(text: str) -> TopicName:
    """Parses a topic's name. Raises InvalidTopicName, with the text of ServerCnx.validateTopicName, for an invalid
    name."""
    try:
        return TopicName.parse(text)
    except InvalidTopicName as error:
        raise InvalidTopicName(f"Invalid topic name: {error}") from None
