"""The pure-Python Pulsar data source for Spark."""

from spark.source.data_source import PulsarDataSource

__all__ = ["PulsarDataSource"]
