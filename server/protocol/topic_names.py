"""Names as they come in commands."""

from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import TopicName


def topic_name(text: str) -> TopicName:
    """Raises InvalidTopicName with ServerCnx.validateTopicName's text."""
    try:
        return TopicName.parse(text)
    except InvalidTopicName as error:
        raise InvalidTopicName(f"Invalid topic name: {error}") from None
