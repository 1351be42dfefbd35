"""The records of the load balancer: the bytes of Apache's brokers, both ways, and readers that nothing upsets."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.load.broker_report import BROKER_VERSION, LOAD_MANAGER, BundleStats, LocalBrokerData
from magnetar.server.load.bundle_averages import BundleData, LeaderRecord, ResourceQuota, TimeAverageBrokerData

RECORDS: dict[str, list[str]] = json.loads((Path(__file__).parents[2] / "vectors" / "load_records.json").read_text())[
    "records"
]

KINDS = {
    "/loadbalance/brokers/": LocalBrokerData,
    "/loadbalance/broker-time-average/": TimeAverageBrokerData,
    "/loadbalance/bundle-data/": BundleData,
    "/loadbalance/resource-quota/": ResourceQuota,
    "/loadbalance/leader": LeaderRecord,
}
Kind = type[LocalBrokerData] | type[TimeAverageBrokerData] | type[BundleData] | type[ResourceQuota] | type[LeaderRecord]

GOLDEN = [
    pytest.param(kind, text.encode(), id=f"{path}#{number}")
    for path, texts in RECORDS.items()
    for prefix, kind in KINDS.items()
    if path.startswith(prefix)
    for number, text in enumerate(texts)
]


@pytest.mark.parametrize(("kind", "value"), GOLDEN)
def test_what_java_wrote_is_read_and_written_again_byte_by_byte(kind: Kind, value: bytes) -> None:
    record = kind.read(value)
    assert record is not None
    assert record.to_bytes() == value


def test_the_vectors_have_every_kind() -> None:
    assert {param.values[0] for param in GOLDEN} == set(KINDS.values())


def test_a_report_of_java_has_the_values_that_it_says() -> None:
    texts = [text for text in RECORDS["/loadbalance/brokers/127.0.0.1:24081"] if '"acme/orders/0x4' in text]
    report = LocalBrokerData.read(texts[0].encode())
    assert report is not None
    assert report.load_manager == LOAD_MANAGER
    assert report.version == BROKER_VERSION
    assert report.identity == ("http://127.0.0.1:24081", "", "pulsar://127.0.0.1:24651", "")
    assert report.bundles == ("acme/orders/0x40000000_0x80000000", "acme/orders/0x00000000_0x40000000")
    assert report.last_stats["acme/orders/0x40000000_0x80000000"].topics == 2
    assert report.usage.cpu.limit == 200
    assert report.usage.cpu.fraction == pytest.approx(report.max_resource_usage)
    assert report.usage.bandwidth_in.fraction == 0, "a limit below 0 says that the speed is not known"


@pytest.mark.parametrize("kind", [LocalBrokerData, TimeAverageBrokerData, BundleData, ResourceQuota, LeaderRecord])
@pytest.mark.parametrize("value", [b"", b"[]", b"null", b"7", b'{"a":', b"\xff\xfe", b'{"cpu":NaN}'])
def test_a_record_that_is_no_object_is_none(kind: Kind, value: bytes) -> None:
    assert kind.read(value) is None


@pytest.mark.parametrize("kind", [LocalBrokerData, TimeAverageBrokerData, BundleData, ResourceQuota])
def test_missing_null_and_unknown_fields_are_no_faults(kind: Kind) -> None:
    names = [name for texts in RECORDS.values() for text in texts for name in json.loads(text)]
    nulls = json.dumps({**dict.fromkeys(names, None), "from the future": [1, {"a": 2}]}).encode()
    empty = kind.read(b"{}")
    with_nulls = kind.read(nulls)
    assert empty is not None
    assert with_nulls is not None
    assert json.loads(with_nulls.to_bytes()).items() >= json.loads(empty.to_bytes()).items()


def test_unknown_fields_of_bundle_data_are_written_back() -> None:
    data = BundleData.read(b'{"topics":3,"added later":{"x":1}}')
    assert data is not None
    data.add(BundleStats(topics=4))
    written = json.loads(data.to_bytes())
    assert written["added later"] == {"x": 1}
    assert written["topics"] == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({name for texts in RECORDS.values() for text in texts for name in json.loads(text)})


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=8))
def test_whatever_stands_in_the_fields_a_record_is_read_and_can_be_written(record: dict[str, object]) -> None:
    value = json.dumps(record, allow_nan=False, default=str).encode() if _is_json(record) else b"{}"
    for kind in (LocalBrokerData, TimeAverageBrokerData, BundleData, ResourceQuota, LeaderRecord):
        read = kind.read(value)
        if read is not None:
            again = kind.read(read.to_bytes())
            assert again == read


def _is_json(record: object) -> bool:
    try:
        json.dumps(record, allow_nan=False).encode()
    except (ValueError, UnicodeError):
        return False
    return True


# --- averages --------------------------------------------------------------------------------------------------------


def test_the_first_sample_replaces_what_was_assumed() -> None:
    data = BundleData.assuming(BundleStats(50, 50_000, 50, 50_000))
    assert data.long_term.message_rate == 100
    data.add(BundleStats(7, 70, 3, 30))
    assert data.short_term.message_rate == 10
    assert data.long_term.throughput == 100


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40))
def test_an_average_is_the_mean_until_its_samples_are_full_and_forgets_slowly_then(rates: list[float]) -> None:
    data = BundleData.assuming(BundleStats())
    for rate in rates:
        data.add(BundleStats(msg_rate_in=rate))
    assert data.long_term.msg_rate_in == pytest.approx(sum(rates) / len(rates), abs=1e-3)
    assert data.short_term.samples == min(10, len(rates))
    assert min(rates) - 1e-3 <= data.short_term.msg_rate_in <= max(rates) + 1e-3
    if len(rates) > 10:
        before = BundleData.assuming(BundleStats())
        for rate in rates[:-1]:
            before.add(BundleStats(msg_rate_in=rate))
        expected = (9 * before.short_term.msg_rate_in + rates[-1]) / 10
        assert data.short_term.msg_rate_in == pytest.approx(expected, abs=1e-3)


def test_a_quota_stands_for_a_full_history() -> None:
    quota = ResourceQuota.read(b'{"msgRateIn":1.0,"msgRateOut":2.0,"bandwidthIn":3.0,"bandwidthOut":4.0}')
    assert quota is not None
    data = quota.as_bundle_data()
    assert (data.long_term.message_rate, data.long_term.throughput, data.long_term.samples) == (3, 7, 1000)


def test_a_broker_s_average_is_the_sum_over_its_bundles_with_a_default_for_unknown_ones() -> None:
    known = {"t/n/a": BundleData.assuming(BundleStats(1, 10, 2, 20))}
    total = TimeAverageBrokerData.total(["t/n/a", "t/n/b"], known, BundleStats(50, 50_000, 50, 50_000))
    assert total.long_message_rate == 103
    assert total.short_throughput_out == 50_020
