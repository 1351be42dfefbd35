"""Names of topics and namespaces, as Java's TopicName reads and stores them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import NamespaceName, TopicName, decode_local, encode_local, partition_index


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("x", "persistent://public/default/x"),
        ("t/n/x", "persistent://t/n/x"),
        ("persistent://t/n/x", "persistent://t/n/x"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("persistent://t-1/n_2.a=b:c/ü x*~", "persistent://t-1/n_2.a=b:c/ü x*~"),
    ],
)
def test_short_and_full_names_are_the_same_topic(text: str, full: str) -> None:
    topic = TopicName.parse(text)
    assert topic.full == str(topic) == full
    assert topic == TopicName.parse(full)
    assert hash(topic) == hash(TopicName.parse(full))
    assert topic.is_persistent is full.startswith("persistent")


def test_parts_of_a_name() -> None:
    topic = TopicName.parse("non-persistent://acme/orders/eu-partition-3")
    assert (topic.domain, topic.tenant, topic.namespace_name) == ("non-persistent", "acme", "orders")
    assert (topic.namespace, topic.local_name, topic.partition_index) == ("acme/orders", "eu-partition-3", 3)
    assert topic.is_partition
    assert topic.base == TopicName.parse("non-persistent://acme/orders/eu")
    assert topic.base.partition(3) == topic
    assert topic.base.base is topic.base


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "/",
        "a/b",
        "a/b/c/d",
        "a//c",
        "/n/x",
        "t/n/",
        "t/n/ ",
        "t /n/x",
        "t/nä/x",
        "kafka://t/n/x",
        "persistent://",
        "persistent://t/n",
        "persistent://t/n/",
        "persistent://t/c/n/x",
        "://t/n/x",
        "topic://t/n/x",
        "persistent://t/n\n/x",
        "persistent:///n/x",
        "PERSISTENT://t/n/x",
    ],
)
def test_what_is_no_topic_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        TopicName.parse(text)
    assert text.strip() in caught.value.message


@pytest.mark.parametrize(
    ("local_name", "index"),
    [
        ("x", -1),
        ("x-partition-0", 0),
        ("x-partition-12", 12),
        ("x-partition-00", -1),
        ("x-partition-01", -1),
        ("x-partition-", -1),
        ("x-partition--1", -1),
        ("x-partition-+1", -1),
        ("x-partition-1a", -1),
        ("x-partition-²", -1),
        ("x-partition-1-partition-2", 2),
        ("x-partition-2147483647", 2147483647),
        ("x-partition-2147483648", -1),
        ("x-partition-99999999999999999999999", -1),
        ("-partition-1", 1),
    ],
)
def test_partition_index_is_read_as_java_does(local_name: str, index: int) -> None:
    assert partition_index(local_name) == index


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("plain-1.2_3*", "plain-1.2_3*"),
        ("a b", "a+b"),
        ("untouched/e", "untouched%2Fe"),
        ("~+%", "%7E%2B%25"),
        ("ü€", "%C3%BC%E2%82%AC"),
        ("a:b@c'(d)!$&,;=?#[]", "a%3Ab%40c%27%28d%29%21%24%26%2C%3B%3D%3F%23%5B%5D"),
    ],
)
def test_encoding_is_that_of_javas_url_encoder(text: str, encoded: str) -> None:
    assert encode_local(text) == encoded
    assert decode_local(encoded) == text


@given(st.text())
def test_encoding_is_reversed_and_safe_in_a_path(text: str) -> None:
    encoded = encode_local(text)
    assert decode_local(encoded) == text
    assert "/" not in encoded
    assert encoded.isascii()


def test_stored_names_are_those_of_java() -> None:
    topic = TopicName.parse("persistent://t/n/a b~ü-partition-1")
    assert topic.managed_ledger_name == "t/n/persistent/a+b%7E%C3%BC-partition-1"
    assert topic.schema_id == "t/n/a+b%7E%C3%BC"


def test_namespace_names() -> None:
    namespace = NamespaceName.parse("acme/orders-1")
    assert (namespace.tenant, namespace.name, str(namespace)) == ("acme", "orders-1", "acme/orders-1")
    for text in ("", "acme", "acme/", "/n", "a/b/c", "a b/c", "ä/c"):
        with pytest.raises(InvalidTopicName):
            NamespaceName.parse(text)


@pytest.mark.parametrize("name", ["persistent://./n/t", "persistent://t/../x", "persistent://t/n/..", "t/n/.", ".."])
def test_dots_alone_are_no_names(name: str) -> None:
    """A metadata store takes these names for steps of a path."""
    with pytest.raises(InvalidTopicName):
        TopicName.parse(name)
    with pytest.raises(InvalidTopicName):
        NamespaceName.parse("public/..")
