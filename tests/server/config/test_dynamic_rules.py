"""Which keys may change while brokers run, and to what."""

import json
from pathlib import Path

import pytest

from magnetar.server.config.dynamic_keys import DYNAMIC_KEYS, JavaType
from magnetar.server.config.dynamic_rules import contradiction, fault_of, fields_of, is_dynamic, text_of, without_effect

APACHE = json.loads((Path(__file__).parents[2] / "vectors" / "dynamic_configuration.json").read_text())
"""The answer of Apache 4.0.7 to GET /admin/v2/brokers/configuration."""

OF_EACH_TYPE = {
    JavaType.BOOLEAN: ("skipBrokerShutdownOnOOM", ("true", "False"), ("yes", "1", "")),
    JavaType.INT: (
        "topicPublisherThrottlingTickTimeMillis",
        ("0", "-1", "2147483647"),
        ("2147483648", "1.5", "x", "", "1_0"),
    ),
    JavaType.LONG: (
        "keySharedUnblockingIntervalMs",
        ("9223372036854775807", "+1"),
        ("9223372036854775808", "1e3", "²"),
    ),
    JavaType.DOUBLE: ("managedLedgerCacheEvictionWatermark", ("0.2", "1", "-1e-3"), ("nan", "0x1", "1,5", "")),
    JavaType.TEXT: ("loadManagerClassName", ("", "a.b.C", "ü/ "), ()),
}


def test_the_keys_are_apaches() -> None:
    assert sorted(DYNAMIC_KEYS) == sorted(APACHE)


@pytest.mark.parametrize("kind", OF_EACH_TYPE, ids=lambda kind: kind.name)
def test_a_key_that_has_no_effect_here_takes_what_java_reads(kind: JavaType) -> None:
    name, sound, unsound = OF_EACH_TYPE[kind]
    assert DYNAMIC_KEYS[name] is kind
    for text in sound:
        assert fault_of(name, text) is None, text
    for text in unsound:
        fault = fault_of(name, text)
        assert fault is not None, text
        assert fault.startswith(f"Invalid dynamic-config value: {name}={text}: expected ")


def test_a_key_that_has_an_effect_here_keeps_its_range() -> None:
    assert fault_of("defaultNumPartitions", "3") is None
    assert fault_of("defaultNumPartitions", "0") is not None
    assert fault_of("allowAutoTopicCreationType", "partitioned") is None
    assert fault_of("allowAutoTopicCreationType", "PARTITIONED ") is not None


def test_a_secret_is_not_repeated() -> None:
    fault = fault_of("brokerClientAuthenticationParameters", "token:x")
    assert fault is None


def test_a_record_of_another_broker_is_read_as_far_as_it_is_sound() -> None:
    values, faults = fields_of(
        {"defaultNumPartitions": "4", "maxTopicsPerNamespace": "abc", "maxMessageSize": "1", "maxTenants": "3"}
    )
    assert values == {"default_num_partitions": 4}
    assert [fault.split(":")[0] for fault in faults] == [
        "Invalid dynamic-config value",
        "maxMessageSize cannot change while brokers run",
    ]


def test_two_values_that_contradict_each_other_are_told() -> None:
    initial, most = (
        "dispatcher_read_failure_backoff_initial_time_in_ms",
        "dispatcher_read_failure_backoff_max_time_in_ms",
    )
    assert contradiction({initial: 10, most: 10}) is None
    assert contradiction({initial: 11, most: 10}) == (
        "dispatcherReadFailureBackoffInitialTimeInMs=11 must not exceed dispatcherReadFailureBackoffMaxTimeInMs=10"
    )


def test_values_are_shown_as_they_are_written() -> None:
    assert text_of(True) == "true"
    assert text_of(("Shared", "Failover")) == "Shared,Failover"
    assert text_of(0.5) == "0.5"


def test_what_has_no_effect_here_is_known() -> None:
    held = ["default_num_partitions"]
    assert without_effect(("defaultNumPartitions", "maxTenants", "maxTopicsPerNamespace"), held) == [
        "maxTenants",
        "maxTopicsPerNamespace",
    ]
    assert not is_dynamic("maxMessageSize")
