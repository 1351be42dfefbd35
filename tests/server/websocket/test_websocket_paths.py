"""Paths of sockets are read as Apache reads them, and what makes no sense is named."""

import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.websocket.query_rules import flag, one_of, whole
from magnetar.server.websocket.websocket_path_rules import (
    TOPICS_MAX,
    QueryFault,
    SocketKind,
    SocketPath,
    is_socket_path,
    read_path,
)
from pulsar_proto.names import TopicName

TOPIC = TopicName.parse("persistent://public/default/t")
VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "websocket_exchanges.json").read_text())["sockets"]


@pytest.mark.parametrize(
    ("path", "kind", "topic", "subscription"),
    [
        ("/ws/v2/producer/persistent/public/default/t", SocketKind.PRODUCER, "persistent://public/default/t", ""),
        ("/ws/v2/reader/non-persistent/a/b/t", SocketKind.READER, "non-persistent://a/b/t", ""),
        ("/ws/v2/consumer/persistent/a/b/t/s", SocketKind.CONSUMER, "persistent://a/b/t", "s"),
        ("/ws/v2/consumer/persistent/a/b/t%20x+y/s%2Fz", SocketKind.CONSUMER, "persistent://a/b/t x y", "s/z"),
        ("/ws/producer/persistent/a/cluster/b/t", SocketKind.PRODUCER, "persistent://a/b/t", ""),
        ("/ws/consumer/persistent/a/cluster/b/t/s", SocketKind.CONSUMER, "persistent://a/b/t", "s"),
    ],
)
def test_a_path_names_kind_topic_and_subscription(path: str, kind: SocketKind, topic: str, subscription: str) -> None:
    assert read_path(path, {}) == SocketPath(kind, (TopicName.parse(topic),), "", subscription)


def test_a_path_of_the_third_version_names_topics_or_a_pattern() -> None:
    found = read_path("/ws/v3/consumer/s", {"topics": "t, persistent://public/default/t,u"})
    assert found == SocketPath(SocketKind.CONSUMER, (TOPIC, TopicName.parse("u")), "", "s")
    assert read_path("/ws/v3/consumer/s", {"topicsPattern": "a/b/c.*"}) == SocketPath(
        SocketKind.CONSUMER, (), "a/b/c.*", "s"
    )


@pytest.mark.parametrize("path", ["/ws/", "/ws/v2", "/ws/v2/", "/ws/v2/nope/persistent/a/b/t", "/ws/v3/producer/x"])
def test_a_path_that_leads_nowhere_is_none(path: str) -> None:
    assert read_path(path, {}) is None


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        ("/ws/v2/producer/persistent/public/default", {}, "Invalid topic name format"),
        ("/ws/v2/producer/persistent/public/default/t/u", {}, "Invalid topic name format"),
        ("/ws/v2/producer/topics/public/default/t", {}, "Invalid topic domain"),
        ("/ws/v2/producer/persistent/public/default/", {}, "can't be empty"),
        ("/ws/v2/producer/persistent/pub%2Flic/default/t", {}, "Invalid topic name"),
        ("/ws/v2/consumer/persistent/public/default/t", {}, "Invalid topic name format"),
        ("/ws/v2/consumer/persistent/public/default/t/", {}, "Empty subscription name"),
        ("/ws/producer/persistent/public/default/t", {}, "Invalid topic name format"),
        ("/ws/v3/consumer/s", {}, "Should set topics or topicsPattern"),
        ("/ws/v3/consumer/s", {"topics": "a", "topicsPattern": "b"}, "Topics must be null"),
        ("/ws/v3/consumer/s", {"topics": "a,,b"}, "Invalid topic name"),
        ("/ws/v3/consumer/s", {"topics": ",".join(["a"] * (TOPICS_MAX + 1))}, f"at most {TOPICS_MAX}"),
        ("/ws/v3/consumer/s/t", {"topics": "a"}, "expected /ws/v3/consumer/"),
    ],
)
def test_what_is_wrong_with_a_path_is_named(path: str, query: dict[str, str], text: str) -> None:
    with pytest.raises(QueryFault, match=text.replace("{", r"\{")):
        read_path(path, query)


def test_the_paths_recorded_from_apache_are_read() -> None:
    for each in VECTORS:
        url = urlsplit(each["url"])
        assert is_socket_path(url.path)
        query = dict(pair.split("=", 1) for pair in url.query.split("&") if pair)
        if each.get("refused") == "500" and "argument" in each.get("title", "").lower():
            with pytest.raises(QueryFault):
                read_path(url.path, query)
        else:
            assert (read_path(url.path, query) is None) == ("/nope/persistent" in url.path)


@given(st.text(alphabet="/%+aws23v.:-\x00é ", max_size=60), st.dictionaries(st.sampled_from(["topics"]), st.text()))
def test_no_path_is_too_strange(rest: str, query: dict[str, str]) -> None:
    with suppress(QueryFault):
        read_path("/ws/" + rest, query)


def test_query_parameters_have_ranges_and_faults_name_them() -> None:
    assert whole({}, "n", 7) == 7
    assert whole({"n": "12"}, "n", 7, 1, 12) == 12
    for wrong in ("13", "0", "-1", "x", "", "1.0", "9" * 30, "１"):
        with pytest.raises(QueryFault, match=r"Invalid n .*from 1 to 12"):
            whole({"n": wrong}, "n", 7, 1, 12)
    assert [flag({"f": text}, "f") for text in ("true", "TRUE", "yes", "")] == [True, True, False, False]
    assert one_of({"c": "b"}, "c", ("a", "b"), "a") == "b"
    with pytest.raises(QueryFault, match="Invalid c Nope: expected one of a, b"):
        one_of({"c": "Nope"}, "c", ("a", "b"), "a")
