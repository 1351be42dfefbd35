"""Writes summaries and histograms as samples of Prometheus."""

import time
from collections.abc import Sequence

from magnetar.server.process.metric_tables import MetricFamilies
from pulsar_proto.histogram import Histogram
from pulsar_proto.latency_summary import LatencySummary


def add_summary(
    families: MetricFamilies,
    name: str,
    summary: LatencySummary,
    quantiles: Sequence[float],
    unit: float = 1.0,
    **labels: str,
) -> None:
    """Adds the quantiles, the count and the sum of a summary. `unit` is how many units of the metric a second has."""
    for quantile, seconds in zip(quantiles, summary.quantiles(quantiles, time.monotonic()), strict=True):
        families.add(name, families.labels(**labels, quantile=str(quantile)), unit * seconds, "summary")
    plain = families.labels(**labels)
    families.add(f"{name}_count", plain, summary.count, "summary", of=name)
    families.add(f"{name}_sum", plain, unit * summary.seconds, "summary", of=name)


def add_histogram(families: MetricFamilies, metric: str, histogram: Histogram, **labels: str) -> None:
    """Adds the buckets, the count and the sum of a histogram."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.cumulative(), strict=True):
        families.add(f"{metric}_bucket", families.labels(**labels, le=bound), count, "histogram", of=metric)
    plain = families.labels(**labels)
    families.add(f"{metric}_count", plain, histogram.count, "histogram", of=metric)
    families.add(f"{metric}_sum", plain, histogram.sum, "histogram", of=metric)
