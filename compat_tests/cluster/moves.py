"""Moves of topics from one broker to another, whatever their make."""

import urllib.request

from compat_tests.cluster import admin
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until

MOVED_SECONDS = 60


def bundle_of(asked: BrokerSeat, topic: str) -> str:
    """Returns the bundle of a topic, `tenant/namespace/name`, as `tenant/namespace/range`."""
    url = f"{asked.web_url}/lookup/v2/topic/persistent/{topic}/bundle"
    with urllib.request.urlopen(url, timeout=admin.CALL_SECONDS) as answer:
        return f"{topic.rpartition('/')[0]}/{answer.read().decode()}"


def unload_to(topic: str, to: BrokerSeat) -> None:
    """Has the bundle of a topic unloaded with a destination, unless it is there, and returns when it is there."""
    if admin.lookup(to, topic).web_url == to.web_url:
        return
    path = f"/admin/v2/namespaces/{bundle_of(to, topic)}/unload?destinationBroker={to.broker_id}"
    admin.call(to, path, "PUT")
    wait_until(lambda: owner_url(to, topic) == to.web_url, f"{topic} is at {to.name}", MOVED_SECONDS)


def owner_url(asked: BrokerSeat, topic: str) -> str:
    """Returns the web address of the topic's owner, or "" while the broker does not know one."""
    try:
        return admin.lookup(asked, topic).web_url
    except urllib.request.HTTPError:
        return ""


def kill(broker: BrokerSeat, left: BrokerSeat, cluster: str) -> None:
    """Kills a broker by SIGKILL, and returns when its session is over for the one that is left."""
    broker.kill()
    wait_until(lambda: broker.broker_id not in admin.registered(left, cluster), f"{broker.name} is gone", MOVED_SECONDS)
