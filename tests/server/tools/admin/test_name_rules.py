"""Names of topics and namespaces are read as Java reads them, and lead to the same paths."""

import pytest

from magnetar.server.tools.admin.name_rules import parse_namespace, parse_topic


@pytest.mark.parametrize(
    ("text", "full", "path"),
    [
        ("t", "persistent://public/default/t", "/admin/v2/persistent/public/default/t"),
        ("a/b/t", "persistent://a/b/t", "/admin/v2/persistent/a/b/t"),
        ("non-persistent://a/b/t", "non-persistent://a/b/t", "/admin/v2/non-persistent/a/b/t"),
        ("persistent://a/b/t x~%", "persistent://a/b/t x~%", "/admin/v2/persistent/a/b/t+x%7E%25"),
        ("persistent://a/c/b/t", "persistent://a/c/b/t", "/admin/persistent/a/c/b/t"),
        ("persistent://a/c/b/t/u", "persistent://a/c/b/t/u", "/admin/persistent/a/c/b/t%2Fu"),
    ],
)
def test_a_topic_has_a_full_name_and_a_path(text: str, full: str, path: str) -> None:
    topic = parse_topic(text)
    assert (topic.text, topic.path) == (full, path)


def test_a_partition_knows_its_number() -> None:
    assert parse_topic("t-partition-12").partition_index == 12
    assert parse_topic("t-partition-012").partition_index == -1
    assert parse_topic("t").partition(3).text == "persistent://public/default/t-partition-3"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a/b", "Invalid short topic name 'a/b'"),
        ("a/b/c/d", "Invalid short topic name"),
        ("http://a/b/c", "Invalid topic domain: 'http'"),
        ("persistent://a/b", "Invalid topic name"),
        ("persistent://a/b/", "Invalid topic name"),
        ("persistent://a/b c/t", "Invalid topic name"),
        ("", "Invalid topic name"),
    ],
)
def test_what_is_no_topic_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_topic(text)


def test_a_command_for_one_domain_refuses_the_other() -> None:
    with pytest.raises(ValueError, match="Need to provide a persistent topic name"):
        parse_topic("non-persistent://a/b/t", "persistent")


def test_a_namespace_may_have_a_cluster_in_the_middle() -> None:
    assert parse_namespace("a/b").path == "/admin/v2/namespaces/a/b"
    assert parse_namespace("a/c/b").path == "/admin/namespaces/a/c/b"
    for text in ("a", "", "a/", "a/b/c/d", "a/b c"):
        with pytest.raises(ValueError, match="Invalid namespace format"):
            parse_namespace(text)
