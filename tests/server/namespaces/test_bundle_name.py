"""Names of bundles, and the namespaces that belong to one broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.namespaces.bundle_name import (
    BundleName,
    heartbeat_broker,
    heartbeat_bundles,
    sla_broker,
    sla_bundle,
)
from magnetar.server.namespaces.bundles import NamespaceBundles


def test_a_name_is_namespace_and_range() -> None:
    name = BundleName.parse("acme/orders/0x40000000_0x80000000")
    assert (name.namespace, name.range, name.bounds) == ("acme/orders", "0x40000000_0x80000000", (2**30, 2**31))
    assert str(name) == "acme/orders/0x40000000_0x80000000"
    assert name == BundleName.of("acme/orders", 2**30, 2**31)
    for text in ("", "acme/orders", "0x0_0x1", "acme/orders/0x2_0x1", "acme/orders/1_2"):
        with pytest.raises(ValueError):
            BundleName.parse(text)


def test_the_last_bundle_includes_its_end() -> None:
    assert BundleName.of("a/b", 0, 2**31).includes(0)
    assert not BundleName.of("a/b", 0, 2**31).includes(2**31)
    assert BundleName.of("a/b", 2**31, 2**32 - 1).includes(2**32 - 1)


@given(st.sets(st.integers(1, 2**32 - 2), max_size=20), st.integers(0, 2**32 - 1))
def test_every_hash_is_in_exactly_one_bundle(inner: set[int], topic_hash: int) -> None:
    bundles = NamespaceBundles("a/b", (0, *sorted(inner), 2**32 - 1), 0)
    assert [each for each in bundles.all if each.includes(topic_hash)] == [bundles.of_hash(topic_hash)]
    assert all(each in bundles for each in bundles.all)
    assert BundleName.of("a/c", *bundles.all[0].bounds) not in bundles


def test_a_broker_s_own_namespaces() -> None:
    old, new = heartbeat_bundles("c1", "host:8080")
    assert str(old) == "pulsar/c1/host:8080/0x00000000_0xffffffff"
    assert str(new) == "pulsar/host:8080/0x00000000_0xffffffff"
    assert heartbeat_broker(old.namespace) == heartbeat_broker(new.namespace) == "host:8080"
    assert sla_broker(sla_bundle("c1", "host:8080").namespace) == "host:8080"
    for namespace in ("pulsar/system", "public/default", "pulsar/host:x", "apulsar/host:8080", "sla-monitor/c1"):
        assert heartbeat_broker(namespace) is sla_broker(namespace) is None
