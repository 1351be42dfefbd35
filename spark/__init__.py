"""Spark and Pulsar: a data source and pipelines. Installed, this package is `magnetar.spark`."""

from spark.source import PulsarDataSource

__all__ = ["PulsarDataSource"]
