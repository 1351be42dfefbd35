"""Tables and families of samples, and the page that they make."""

import asyncio
import math

import pytest

from magnetar.server.process import turns as turns_of_work
from magnetar.server.process.metric_summaries import add_histogram, add_summary
from magnetar.server.process.metric_tables import (
    ROWS_AT_ONCE,
    MetricFamilies,
    MetricTable,
    counters,
    gauges,
    label_text,
    page_text,
    text_of,
)
from pulsar_proto.histogram import Histogram
from pulsar_proto.latency_summary import LatencySummary


async def text(*tables: MetricTable, families: MetricFamilies) -> str:
    return "".join([piece async for piece in page_text(tables, families)])


async def test_all_samples_of_a_name_stand_together_wherever_they_come_from() -> None:
    first, second = MetricTable([*gauges("a", "b"), *counters("c_total")]), MetricTable(gauges("b"))
    first.add(label_text(x="1"), (1, 2.5, 3))
    first.add(label_text(x="2"), (4, 5, 6))
    second.add(label_text(y='"\n\\'), (7,))
    families = MetricFamilies(cluster="k")
    families.add("b", families.labels(), 8)
    families.add("d", families.labels(), 9, "counter")
    assert await text(first, second, families=families) == (
        '# TYPE a gauge\na{x="1"} 1.0\na{x="2"} 4.0\n'
        '# TYPE b gauge\nb{x="1"} 2.5\nb{x="2"} 5.0\nb{y="\\"\\n\\\\"} 7.0\nb{cluster="k"} 8\n'
        '# TYPE c_total counter\nc_total{x="1"} 3.0\nc_total{x="2"} 6.0\n'
        '# TYPE d counter\nd{cluster="k"} 9\n'
    )


async def test_a_column_of_an_empty_table_leaves_no_line() -> None:
    assert await text(MetricTable(gauges("a")), families=MetricFamilies()) == ""


async def test_other_tasks_run_while_a_long_page_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_of_work, "PORTION_SECONDS", 0.0)  # each piece of the page takes longer
    table = MetricTable(gauges(*(f"metric_{number}" for number in range(6))))
    for number in range(20 * ROWS_AT_ONCE):
        table.add(label_text(topic=f"persistent://public/default/topic-{number}"), [0.0] * 6)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    lines = (await text(table, families=MetricFamilies())).count("\n")
    counting.cancel()
    assert lines == 6 * (20 * ROWS_AT_ONCE + 1)
    assert turns >= 6 * 20


def test_a_summary_has_quantiles_a_count_and_a_sum() -> None:
    families, summary = MetricFamilies(), LatencySummary()
    summary.add(0.5, 4)
    add_summary(families, "s", summary, (0.5, 1.0), 1000.0, success="true")
    lines = text_of(families).splitlines()
    assert lines[0] == "# TYPE s summary"
    assert [line.partition(" ")[0] for line in lines[1:]] == [
        's{success="true",quantile="0.5"}',
        's{success="true",quantile="1.0"}',
        's_count{success="true"}',
        's_sum{success="true"}',
    ]
    values = [float(line.rpartition(" ")[2]) for line in lines[1:]]
    assert math.isclose(values[0], 500, rel_tol=0.05)
    assert values[2:] == [4, 2000]


def test_a_histogram_counts_all_that_does_not_exceed_a_bound() -> None:
    families, histogram = MetricFamilies(), Histogram((1, 5))
    for value in (0.5, 1, 3, 99):
        histogram.add(value)
    add_histogram(families, "h", histogram)
    assert text_of(families) == (
        "# TYPE h histogram\n"
        'h_bucket{le="1.0"} 2\nh_bucket{le="5.0"} 3\nh_bucket{le="+Inf"} 4\nh_count 4\nh_sum 103.5\n'
    )
