"""The stores that tests can put the files of jobs into."""

import pytest

from compat_tests.spark.azure_server import AzureServer
from compat_tests.spark.hdfs_server import HdfsServer
from compat_tests.spark.s3_server import S3Server
from compat_tests.spark.store_server import StoreServer

STORES: dict[str, type[StoreServer]] = {"s3": S3Server, "azure": AzureServer, "hdfs": HdfsServer}
STORES_OF_TESTS = ["s3", *(pytest.param(name, marks=pytest.mark.long) for name in STORES if name != "s3")]
"""As the parameters of a fixture: the stores that have to be fetched first are for the long tests."""
