"""What an export holds, and that nothing of OpenTelemetry is imported while it is switched off."""

import asyncio
import math
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader

from magnetar.server.broker.broker import Broker
from magnetar.server.config.broker_config import ConfigError
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.programs import broker_parts
from magnetar.server.telemetry import export, exporters
from magnetar.server.telemetry.export import Telemetry
from magnetar.server.telemetry.instruments import Instrument, Kind
from magnetar.server.telemetry.points import OVERFLOW, SETS_MAX, TEXT_MAX, PointTable
from pulsar_proto.names import TopicName
from tests.server.telemetry.otlp_receiver import OtlpReceiver
from tests.server.web.web_scene import running

STARTS = """
import sys
import magnetar.server.programs.standalone, magnetar.server.programs.broker
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""

COUNTS = [Instrument("messages", Kind.COUNTER, "1", ""), Instrument("bytes", Kind.COUNTER, "By", "")]


def test_objects_beyond_the_limit_are_added_up() -> None:
    table, limits = PointTable(COUNTS), PointTable(COUNTS, can_be_summed=False)
    for number in range(SETS_MAX + 3):
        table.add({"number": number}, number, 1)
        limits.add({"number": number}, number, 1)
    messages = list(table.points(0))
    assert messages[SETS_MAX - 1 :] == [({"number": SETS_MAX - 1}, SETS_MAX - 1), (OVERFLOW, 3 * SETS_MAX + 3)]
    assert list(table.points(1))[-1] == (OVERFLOW, 3)
    assert len(list(limits.points(0))) == SETS_MAX


def test_a_name_that_a_client_has_chosen_is_exported_only_in_part() -> None:
    table = PointTable(COUNTS)
    table.add({"pulsar.consumer.name": "x" * 5_000_000, "pulsar.consumer.id": 7}, 1, 1)
    assert list(table.points(0)) == [({"pulsar.consumer.name": "x" * TEXT_MAX, "pulsar.consumer.id": 7}, 1)]


@pytest.mark.process
def test_programs_import_nothing_of_opentelemetry() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


async def test_the_export_is_off_unless_the_variable_is_false(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "magnetar.server.telemetry.export", None)
    async with running(tmp_path) as web, AsyncExitStack() as closing:
        for text in (None, "true", "no"):
            monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
            if text is not None:
                monkeypatch.setenv("OTEL_SDK_DISABLED", text)
            assert broker_parts.load_telemetry() is None
        broker_parts.export_metrics(None, Broker(web.server.service, ConnectionSettings()), closing)
        monkeypatch.setenv("OTEL_SDK_DISABLED", "FALSE")
        with pytest.raises(ConfigError, match=r"pip install 'magnetar\[otel\]'"):
            broker_parts.load_telemetry()


async def test_objects_that_are_gone_do_not_count_against_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "SEEN_MAX", 0)
    monkeypatch.setattr(export, "SETS_MAX", 3)
    name = "pulsar.broker.topic.message.incoming.count"
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with running(tmp_path) as web:
            service = web.server.service
            telemetry = Telemetry(Broker(service, ConnectionSettings()), {"OTEL_METRIC_EXPORT_INTERVAL": "3600000"})
            for generation in range(4):
                topics = {f"persistent://public/default/{generation}-{number}" for number in range(3)}
                for topic in topics:
                    await service.get_topic(TopicName.parse(topic), create=True)
                await telemetry._export()
                points = receiver.exports[-1].metrics[name].points
                assert {point.attributes.get("pulsar.topic") for point in points} == topics
                for topic in topics:
                    await service.delete_topic(TopicName.parse(topic))
            await telemetry.close()


async def test_a_stop_does_not_wait_for_an_exporter_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Hanging(MetricExporter):
        def export(self, metrics_data: Any, timeout_millis: float = 0, **more: Any) -> MetricExportResult:
            begun.set()
            may_end.wait()
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 0) -> bool:
            return True

        def shutdown(self, timeout_millis: float = 0, **more: Any) -> None:
            may_end.wait()

    def reader(name: str) -> PeriodicExportingMetricReader:
        return PeriodicExportingMetricReader(Hanging(), export_interval_millis=math.inf)

    monkeypatch.setattr(exporters, "_exporting", reader)
    try:
        async with running(tmp_path) as web:
            telemetry = Telemetry(Broker(web.server.service, ConnectionSettings()), {})
            exporting = asyncio.ensure_future(telemetry._export())
            await asyncio.to_thread(begun.wait)
            await telemetry.close()
            exporting.cancel()
        assert all(each.daemon for each in threading.enumerate() if each.name == "telemetry")
        # The end of the event loop waits for the threads of its executor.
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 60)
    finally:
        may_end.set()


async def test_the_last_export_comes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LAST_EXPORT_SECONDS", 60.0)
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with running(tmp_path) as web:
            broker = Broker(web.server.service, ConnectionSettings())
            telemetry = Telemetry(broker, {"OTEL_METRIC_EXPORT_INTERVAL": "3600000"})
            assert not receiver.exports
            await telemetry.close()
        assert len(receiver.exports) == 1


async def test_an_export_is_empty_when_the_loop_gathers_nothing_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export, "GATHER_SECONDS", 0)
    async with running(tmp_path) as web:
        await web.server.service.get_topic(TopicName.parse("t"), create=True)
        telemetry = Telemetry(Broker(web.server.service, ConnectionSettings()), {"OTEL_METRICS_EXPORTER": "none"})
        # This call waits on the thread of the loop, which therefore cannot gather anything.
        tables = telemetry._snapshot()
        await telemetry.close()
    assert not any(list(table.points(0)) for table in tables)
    assert "the broker gathered no metrics in 0 s" in caplog.text
