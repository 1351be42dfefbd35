"""Four years of weather in Seattle, 2012 to 2015, through Pulsar's client, `lake_ingest` and `window_agg`.

The data set is `seattle-weather.csv` of the PyPI package vega_datasets (MIT), drawn from public-domain data of NOAA:
1461 days with precipitation, temperatures, wind and the kind of weather.
"""

import json
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pulsar
import pytest
from vega_datasets import local_data

from magnetar.spark.jobs.lake import lake_ingest
from magnetar.spark.jobs.window import window_agg
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "persistent://public/default/seattle-weather"
MEASURES = ["precipitation", "temp_max", "temp_min", "wind"]
DAY_MS = 86_400_000


class Day(pulsar.schema.Record):  # type: ignore[misc]
    date = pulsar.schema.String()
    precipitation = pulsar.schema.Double()
    temp_max = pulsar.schema.Double()
    temp_min = pulsar.schema.Double()
    wind = pulsar.schema.Double()
    weather = pulsar.schema.String()


@pytest.fixture(scope="module")
def weather() -> pd.DataFrame:
    """Returns the package's own data, with the begin of each day in milliseconds as `time`."""
    days = local_data.seattle_weather()
    return days.assign(time=pd.DatetimeIndex(days["date"]).as_unit("ms").asi8)


@pytest.fixture(scope="module")
def given(scene: Scene, weather: pd.DataFrame) -> list[str]:
    """Writes the topic, a message for each day, keyed by the kind of weather. Returns the options that all jobs
    need."""
    producer = scene.client.create_producer(TOPIC, schema=pulsar.schema.JsonSchema(Day), block_if_queue_full=True)
    for row in weather.to_dict("records"):
        day = Day(date=f"{row['date']:%Y-%m-%d}", weather=row["weather"], **{name: row[name] for name in MEASURES})
        producer.send_async(day, None, partition_key=row["weather"], event_timestamp=row["time"])
    producer.flush()
    producer.close()
    return ["--service-url", scene.server.broker_url, "--topic", TOPIC, "--progress", "json"]


def outcome(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return said


def test_every_day_is_in_the_lake_as_it_was(
    given: list[str], weather: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--path", f"{tmp_path}/lake", "--checkpoint", f"{tmp_path}/checkpoint"]
    assert lake_ingest.main([*given, *places, "--format", "delta"]) == 0
    assert outcome(capsys)["written"] == 1461
    table = deltalake.DeltaTable(f"{tmp_path}/lake").to_pyarrow_table().to_pandas().sort_values("date")
    columns = ["date", *MEASURES, "weather"]
    assert list(table[columns].itertuples(index=False, name=None)) == [
        (f"{date:%Y-%m-%d}", *rest) for date, *rest in weather[columns].itertuples(index=False, name=None)
    ]
    assert list(pd.DatetimeIndex(table["__eventTime"]).as_unit("ms").asi8) == list(weather["time"])
    assert [key.decode() for key in table["__key"]] == list(weather["weather"])


def test_weeks_by_kind_of_weather_are_what_pandas_computes(
    given: list[str], weather: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--agg", "count(*) as days, avg(temp_max), sum(precipitation), min(temp_min), max(wind)"]
    places = ["--out-path", f"{tmp_path}/weeks", "--checkpoint", f"{tmp_path}/checkpoint"]
    assert window_agg.main([*given, "--window", "7 days", *results, *places]) == 0
    said = outcome(capsys)
    assert (said["read"], said["details"]["on time, all runs"], said["details"]["late, all runs"]) == (1461, 1461, 0)
    rows = pd.read_parquet(f"{tmp_path}/weeks")
    got = {(row.key, row.window_start.value // 1_000_000): row[3:8] for row in rows.itertuples(index=False)}
    week = weather["time"] // (7 * DAY_MS) * (7 * DAY_MS)
    done = weather[week + 7 * DAY_MS <= weather["time"].max()].assign(week=week)
    expected = {
        (key, start): (
            len(days),
            pytest.approx(days["temp_max"].mean()),
            pytest.approx(days["precipitation"].sum()),
            days["temp_min"].min(),
            days["wind"].max(),
        )
        for (key, start), days in done.groupby(["weather", "week"])
    }
    assert got == expected
    assert len(rows) == len(expected) == said["written"]
