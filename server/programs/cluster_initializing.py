"""Runs `magnetar initialize-cluster-metadata`: connects to the stores, makes the records, and reports the result."""

import argparse
import asyncio
import socket
import sys
from contextlib import AsyncExitStack

from magnetar.metadata.cluster_setup import ClusterPlan, LedgersPlace, set_up_cluster
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.paths import LEDGERS_ROOT
from magnetar.metadata.zookeeper.connect_string import SCHEME, ConnectString
from magnetar.metadata.zookeeper.service_uri import parse_service_uri
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.process.log_lines import log_to_stderr
from magnetar.server.process.running import loop_factory, sentence
from pulsar_proto.errors import MalformedRecord

CALL_SECONDS = 10.0
"""The seconds after which a call of ZooKeeper fails: a tool must soon report that no server answers."""

FAULTS = (MetadataError, MalformedRecord, ValueError, OSError)


def run_initialization(arguments: argparse.Namespace) -> int:
    """Sets the cluster up and returns the exit code."""
    log_to_stderr(arguments.log_level)
    try:
        plan = plan_of(arguments)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_initialize(arguments, plan))
    except FAULTS as error:
        print(f"magnetar initialize-cluster-metadata: {sentence(error)}", file=sys.stderr)
        return 1
    print(f"Cluster metadata for '{plan.cluster}' setup correctly")
    return 0


def plan_of(arguments: argparse.Namespace) -> ClusterPlan:
    """Returns the plan of the cluster that the command line describes. Raises ValueError for an invalid option."""
    existing = arguments.existing_bk_metadata_service_uri
    return ClusterPlan(
        cluster=arguments.cluster,
        urls={
            "serviceUrl": arguments.web_service_url,
            "serviceUrlTls": arguments.web_service_url_tls,
            "brokerServiceUrl": arguments.broker_service_url,
            "brokerServiceUrlTls": arguments.broker_service_url_tls,
            "proxyServiceUrl": arguments.proxy_url,
            "proxyProtocol": arguments.proxy_protocol,
            "authenticationPlugin": arguments.auth_plugin,
            "authenticationParameters": arguments.auth_parameters,
        },
        ledgers=_ledgers(parse_service_uri(existing).connect if existing else arguments.metadata_store),
        has_bookkeeper=not existing,
        client_tls=arguments.tls_enable,
        default_bundles=arguments.default_namespace_bundle_number,
        transaction_coordinators=arguments.initial_num_transaction_coordinators,
        stream_storage_containers=arguments.initial_num_stream_storage_containers,
        host_address=_host_address(),
    )


def _ledgers(connect: str) -> LedgersPlace:
    """Returns the place of BookKeeper's records in a store. Raises ValueError for an invalid connect string."""
    chroot = ConnectString.parse(connect).chroot
    return LedgersPlace(connect.removeprefix(SCHEME).partition("/")[0], chroot + LEDGERS_ROOT)


def _host_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


async def _initialize(arguments: argparse.Namespace, plan: ClusterPlan) -> None:
    local_url = arguments.metadata_store
    configuration_url = arguments.configuration_metadata_store or local_url
    async with AsyncExitStack() as stack:

        async def opened(url: str) -> ZooKeeperStore:
            store = await ZooKeeperStore.open(
                url,
                session_timeout_ms=arguments.zookeeper_session_timeout_ms,
                call_timeout_seconds=CALL_SECONDS,
            )
            stack.push_async_callback(store.close)
            return store

        local = await opened(local_url)
        configuration = local if configuration_url == local_url else await opened(configuration_url)
        await set_up_cluster(local, configuration, plan)
