"""The keys of broker.conf that a broker of a cluster honours: the keys of a standalone server without the bookie's
keys, and the keys of the metadata store, of the ledger client and of the process."""

from dataclasses import replace

from magnetar.server.config.bookie_tls_keys import BROKER_BOOKIE_TLS
from magnetar.server.config.honoured_keys import (
    BUNDLES,
    CONNECTIONS,
    HTTP,
    LEDGER_CLIENT,
    MANAGED_LEDGERS,
    METRICS,
    PEERS,
    POLICIES,
    SECURITY,
    SERVER,
    TOPICS,
)
from magnetar.server.config.key_kinds import (
    DAY_SECONDS,
    MAX_INT,
    Key,
    Value,
    any_text,
    choice,
    switch,
    whole,
)
from magnetar.server.config.load_keys import BROKER_LOAD_MANAGER, LOAD
from magnetar.server.config.transaction_keys import TRANSACTIONS


def _milliseconds(name: str, field: str) -> Key:
    """Returns the key of a time that is configured in milliseconds, while the field of the settings class is in
    seconds."""
    each = whole(name, 0, MAX_INT, "milliseconds", fields=(field,))

    def parse(text: str) -> Value:
        value = each.parse(text)
        assert isinstance(value, int)
        return value / 1000

    return replace(each, parse=parse)


def _bookkeeper_switch(name: str, field: str) -> Key:
    return replace(switch(name), fields=(field,))


def _missing(name: str, why: str) -> Key:
    """Returns the key of a protection that this broker lacks. A configuration that turns the protection on is refused,
    so that nobody believes that it is on."""

    def parse(text: str) -> Value:
        if text.lower() != "false":
            raise ValueError(text)
        return text

    return Key(name, (), parse, f"nothing, this version does not have that yet: {why}")


METADATA = (
    any_text("metadataStoreUrl"),
    any_text("configurationMetadataStoreUrl"),
    any_text("zookeeperServers"),
    any_text("configurationStoreServers"),
    any_text("globalZookeeperServers"),
    whole("metadataStoreSessionTimeoutMillis", 1, MAX_INT, "milliseconds"),
    whole("zooKeeperSessionTimeoutMillis", -1, MAX_INT, "milliseconds"),
    whole("zooKeeperOperationTimeoutSeconds", -1, DAY_SECONDS, "seconds"),
    choice("zookeeperSessionExpiredPolicy", "reconnect", "shutdown"),
    any_text("bookkeeperMetadataServiceUri"),
)

BOOKKEEPER = (
    _milliseconds("bookkeeperClientSpeculativeReadTimeoutInMillis", "speculative_read_timeout_sec"),
    _milliseconds("bookkeeperExplicitLacIntervalInMills", "explicit_lac_interval_sec"),
    _bookkeeper_switch("bookkeeperUseV2WireProtocol", "use_v2_wire_protocol"),
    _bookkeeper_switch("bookkeeperClientHealthCheckEnabled", "bookie_health_check"),
    whole("bookkeeperClientHealthCheckIntervalSeconds", 1, MAX_INT, "seconds", fields=("bookie_errors_interval_sec",)),
    _bookkeeper_switch("bookkeeperClientRackawarePolicyEnabled", "rack_aware"),
    _bookkeeper_switch("bookkeeperClientRegionawarePolicyEnabled", "region_aware"),
    replace(any_text("bookkeeperClientIsolationGroups"), fields=("isolation_groups",)),
    replace(any_text("bookkeeperClientSecondaryIsolationGroups"), fields=("secondary_isolation_groups",)),
    _missing(
        "bookkeeperClientAuthenticationPlugin",
        "Java's plugins are not loaded; bookies are shown a certificate at most (bookkeeperTLSClientAuthentication)",
    ),
    whole("bookkeeperClientHealthCheckErrorThresholdPerInterval", 1, MAX_INT, fields=("bookie_errors_max",)),
    whole(
        "bookkeeperClientHealthCheckQuarantineTimeInSeconds",
        1,
        MAX_INT,
        "seconds",
        fields=("bookie_quarantine_time_sec",),
    ),
    whole("bookkeeperClientMinNumRacksPerWriteQuorum", 1, 255, "racks", fields=("min_num_racks_per_write_quorum",)),
    _bookkeeper_switch("bookkeeperClientEnforceMinNumRacksPerWriteQuorum", "enforce_min_num_racks_per_write_quorum"),
)


PROCESS = (whole("brokerShutdownTimeoutMs", 0, MAX_INT, "milliseconds"),)

BROKER_LOAD = (BROKER_LOAD_MANAGER, *LOAD)

BROKER_SECTIONS = (
    SERVER,
    CONNECTIONS,
    HTTP,
    SECURITY,
    PEERS,
    METRICS,
    TOPICS,
    POLICIES,
    MANAGED_LEDGERS,
    LEDGER_CLIENT,
    METADATA,
    BOOKKEEPER,
    BROKER_BOOKIE_TLS,
    PROCESS,
    BROKER_LOAD,
    BUNDLES,
    TRANSACTIONS,
)
"""The tables of a broker's keys. No two tables name the same key, because the second one would replace the first."""

BROKER_KEYS: dict[str, Key] = {key.name: key for section in BROKER_SECTIONS for key in section}
