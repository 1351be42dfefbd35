"""Configuration: files written for Apache's servers start ours, and every fault is named with its place."""

import logging
from dataclasses import fields
from pathlib import Path

import pytest

from magnetar.server.config.broker_config import BrokerConfig, ConfigError, load_config
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.fault_settings import FaultSettings
from magnetar.server.config.honoured_keys import KEYS, UNSAFE_TO_IGNORE
from magnetar.server.config.key_kinds import PORT_OFF, snake_case
from magnetar.server.config.known_keys import KNOWN
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.config.metadata_settings import MetadataSettings
from magnetar.server.config.missed_keys import NOT_HERE
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.config.properties_file import parse_properties
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.tools.configuration.program_settings import BOTH_BROKERS
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

SETTINGS = (
    BrokerConfig,
    *BOTH_BROKERS,
    FaultSettings,
    LoadSettings,
    MetadataSettings,
    PeerSettings,
    TransactionSettings,
    ManagedLedgerConfig,
    BookieConfig,
    LedgerConfig,
)

APACHE_STANDALONE = """\
### --- General broker settings --- ###
metadataStoreUrl=
configurationMetadataStoreUrl=
brokerServicePort=6650
webServicePort=8080
bindAddress=0.0.0.0
advertisedAddress=
numIOThreads=
clusterName=standalone
metadataStoreSessionTimeoutMillis=30000
backlogQuotaDefaultLimitGB=10
maxPendingPublishRequestsPerConnection=1000
activeConsumerFailoverDelayTimeMillis=1000
maxUnackedMessagesPerConsumer=50000
maxUnackedMessagesPerSubscription=200000
maxMessagePublishBufferSizeInMB=
dispatcherReadFailureBackoffInitialTimeInMs=15000
maxConcurrentLookupRequest=50000
tlsEnabled=false
authenticationEnabled=false
authorizationEnabled=false
bookkeeperClientTimeoutInSeconds=30
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=
managedLedgerDefaultMarkDeleteRateLimit=0.1
managedLedgerMaxEntriesPerLedger=50000
managedLedgerMinLedgerRolloverTimeMinutes=10
managedLedgerMaxLedgerRolloverTimeMinutes=240
loadManagerClassName=org.apache.pulsar.broker.loadbalance.NoopLoadManager
defaultRetentionTimeInMinutes=0
defaultRetentionSizeInMB=0
keepAliveIntervalSeconds=30
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
dbStorage_writeCacheMaxSizeMb=
dbStorage_readAheadCacheMaxSizeMb=
dbStorage_readAheadCacheBatchSize=1000
flushInterval=60000
journalMaxGroupWaitMSec=1
journalSyncData=false
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
allowLoopback=true
gcWaitTime=300000
allowAutoTopicCreation=true
allowAutoTopicCreationType=non-partitioned
zooKeeperSessionTimeoutMillis=-1
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "standalone.conf"


def test_without_a_file_everything_has_its_default() -> None:
    config = load_config()
    assert config.broker == BrokerConfig()
    assert config.fill(TopicSettings) == TopicSettings()
    assert config.fill(ConnectionSettings) == ConnectionSettings()
    assert config.managed_ledgers(bookies=1) == ManagedLedgerConfig()
    bookie = config.bookie(journal_directories=(Path("/j"),), ledger_directories=(Path("/a"), Path("/b")))
    assert bookie == BookieConfig(journal_directories=("/j",), ledger_directories=("/a", "/b"))


def test_a_pause_that_nothing_calls_for_is_told_to_be_without_effect(
    conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf.write_text("dispatcherPauseOnAckStatePersistentEnabled=true\n")
    load_config(conf)
    assert "without effect in this version: dispatcherPauseOnAckStatePersistentEnabled" in caplog.text


def test_what_clients_will_miss_is_told_in_lines_of_their_own(conf: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf.write_text(
        "enablePackagesManagement=true\nwebSocketServiceEnabled=false\nmessagingProtocols=kafka\n"
        "maxUnackedMessagesPerBroker=0\nmaxTenants=5\nenablePersistentTopics=true\nnumIOThreads=8\n"
        "topicFactoryClassName=com.example.Topics\nschemaRegistryStorageClassName=org.apache.pulsar.Own\n"
    )
    load_config(conf, {"functionsWorkerEnabled": "TRUE"})
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{conf}:1: enablePackagesManagement is not honoured in this version: packages cannot be uploaded: their admin "
        "calls answer 503",
        f"{conf}:3: messagingProtocols is not honoured in this version: protocol handlers are not loaded: clients of "
        "other protocols cannot connect",
        f"{conf}:5: maxTenants is not honoured in this version: the number of tenants is not limited",
        f"{conf}:8: topicFactoryClassName is not honoured in this version: classes of Java are not loaded",
        "--set: functionsWorkerEnabled is not honoured in this version: functions, sources and sinks are not run: "
        "their admin calls answer 409",
        "without effect in this version: maxUnackedMessagesPerBroker, enablePersistentTopics, "
        "numIOThreads, schemaRegistryStorageClassName",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_keys_that_nobody_knows_are_told_with_the_likely_one(conf: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf.write_text("maxMesageSize=7\nmyOwnKey=secret\nbookkeeper_anything=1\nopenIDAllowedAudiences=a\n")
    load_config(conf)
    assert [record.getMessage() for record in caplog.records] == [
        "without effect in this version: bookkeeper_anything, openIDAllowedAudiences",
        "unknown keys, which Apache does not know either: maxMesageSize (is it maxMessageSize?), myOwnKey",
    ]


def test_no_key_is_honoured_and_missed_at_once() -> None:
    missed = set(NOT_HERE)
    assert missed <= KNOWN
    assert not missed & (set(KEYS) | set(UNSAFE_TO_IGNORE))
    for name, missing in NOT_HERE.items():
        assert any(map(missing.matters, ("true", "false", "7", "com.example.X"))), name


def test_apaches_standalone_file_starts_ours(conf: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf.write_text(APACHE_STANDALONE)
    config = load_config(conf)
    assert config.broker == BrokerConfig(bind_address="0.0.0.0")
    managed = config.managed_ledgers(bookies=1)
    assert managed.managed_ledger_default_mark_delete_rate_limit == 0.1
    assert managed.managed_ledger_cache_size_mb == ManagedLedgerConfig().managed_ledger_cache_size_mb
    bookie = config.bookie(journal_directories=(Path("/j"),), ledger_directories=(Path("/l"),))
    assert (bookie.flush_interval, bookie.gc_wait_time, bookie.disk_usage_warn_threshold) == (60_000, 300_000, 0.99)
    assert bookie.db_storage_write_cache_max_size_mb > 0
    config.fill(ConnectionSettings)
    config.fill(TopicSettings)
    assert config.fill(LedgerConfig).read_entry_timeout_sec == 30
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    for name in ("journalSyncData", "zooKeeperSessionTimeoutMillis", "ledgerStorageClass", "tlsEnabled"):
        assert caplog.text.count(name) == 1
    for name in ("brokerServicePort", "metadataStoreUrl", "numIOThreads", "flushInterval"):
        assert name not in caplog.text


def test_overrides_outrank_the_file(conf: Path) -> None:
    conf.write_text("brokerServicePort=1\nwebServicePort=2\n")
    config = load_config(conf, {"brokerServicePort": "0", "dispatcherMaxReadBatchSize": " 7 "})
    assert (config.broker.broker_service_port, config.broker.web_service_port) == (0, 2)
    assert config.fill(TopicSettings).dispatcher_max_read_batch_size == 7


def test_an_empty_value_means_the_default(conf: Path) -> None:
    conf.write_text("topicLoadTimeoutSeconds=\nclusterName=\nallowAutoTopicCreation=\n")
    assert load_config(conf).broker == BrokerConfig()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("maxMessageSize=big", "expected a whole number of bytes from 1 to 1073741824"),
        ("maxMessageSize=0", "expected a whole number of bytes from 1 to 1073741824"),
        ("maxMessageSize=1_000", "expected a whole number of bytes from 1 to 1073741824"),
        ("maxMessageSize=5242880.5", "expected a whole number of bytes from 1 to 1073741824"),
        ("brokerServicePort=65536", "expected a whole number from 0 to 65535"),
        ("keepAliveIntervalSeconds=-1", "expected a whole number of seconds from 1 to 86400"),
        ("defaultRetentionSizeInMB=-2", "expected a whole number of MB from -1 to 2147483647"),
        ("allowAutoTopicCreation=yes", "expected true or false"),
        ("managedLedgerDefaultMarkDeleteRateLimit=nan", "expected a number of writes a second from 0 to 1e+06"),
        ("diskUsageThreshold=95", "expected a number from 0.001 to 1"),
        ("clusterName=a b", "expected a name of letters, digits and -=:._"),
        ("bindAddress=http://x", "expected a host name or address"),
        (
            "subscriptionTypesEnabled=Shared,Best",
            "expected a list, with commas, of Exclusive, Shared, Failover, Key_Shared",
        ),
    ],
)
def test_a_bad_value_is_named_with_file_line_and_range(conf: Path, line: str, expected: str) -> None:
    conf.write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(conf)
    assert str(caught.value) == f"{conf}:3: {line}: {expected}"
    key, _, value = line.partition("=")
    with pytest.raises(ConfigError) as caught:
        load_config(None, {key: value})
    assert str(caught.value) == f"--set: {line}: {expected}"


def test_all_faults_are_named_at_once(conf: Path) -> None:
    conf.write_text("webServicePort=x\nmaxMessageSize=y\n")
    with pytest.raises(ConfigError) as caught:
        load_config(conf, {"flushInterval": "z"})
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "webServicePort=x",
        "maxMessageSize=y",
        "flushInterval=z",
    ]


def test_values_that_contradict_each_other_are_refused(conf: Path) -> None:
    conf.write_text("managedLedgerDefaultWriteQuorum=2\nmanagedLedgerDefaultAckQuorum=3\n")
    with pytest.raises(
        ConfigError, match=f"{conf}:2: managedLedgerDefaultAckQuorum=3: must not exceed .*WriteQuorum=2"
    ):
        load_config(conf)


def test_what_only_the_settings_class_can_see_is_refused_with_its_place() -> None:
    config = load_config(None, {"managedLedgerDefaultAckQuorum": "3"})
    with pytest.raises(ConfigError, match="quorums must be"):
        config.managed_ledgers()
    with pytest.raises(ConfigError, match="--set: diskUsageLwmThreshold=1"):
        load_config(None, {"diskUsageLwmThreshold": "1"}).bookie(
            journal_directories=(Path("/j"),), ledger_directories=(Path("/l"),)
        )


def test_a_lower_disk_threshold_lowers_its_low_water_mark() -> None:
    config = load_config(None, {"diskUsageThreshold": "0.5"})
    bookie = config.bookie(journal_directories=(Path("/j"),), ledger_directories=(Path("/l"),))
    assert (bookie.disk_usage_threshold, bookie.disk_usage_lwm_threshold) == (0.5, 0.5)


def test_quorums_of_a_cluster_are_cut_down_to_the_bookies_there_are(caplog: pytest.LogCaptureFixture) -> None:
    overrides = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}
    config = load_config(None, overrides)
    assert config.managed_ledgers(bookies=1).quorums == (1, 1, 1)
    assert "2/2/2" in caplog.text
    assert config.managed_ledgers(bookies=3).quorums == (2, 2, 2)


@pytest.mark.parametrize("key", ["tlsEnabledWithKeyStore"])
def test_a_missing_protection_is_not_silently_ignored(key: str) -> None:
    with pytest.raises(ConfigError, match=f"--set: {key}=true: this version does not have that"):
        load_config(None, {key: "true"})


def test_a_port_that_is_set_to_nothing_is_off_and_one_that_is_not_set_has_its_default() -> None:
    assert load_config(None, {"brokerServicePort": ""}).broker.broker_service_port == PORT_OFF
    assert load_config(None, {}).broker.broker_service_port == 6650
    assert load_config(None, {}).broker.broker_service_port_tls == PORT_OFF


def test_a_secret_is_not_shown() -> None:
    config = load_config(None, {"tokenSecretKey": "s3cret", "basicAuthConf": "s3cret"})
    assert "s3cret" not in repr(config.places)
    assert "s3cret" not in repr(config.fill(SecuritySettings))


def test_authorization_without_authentication_is_refused_with_the_key() -> None:
    with pytest.raises(ConfigError, match="authorizationEnabled=true: authorization_enabled needs authentication"):
        load_config(None, {"authorizationEnabled": "true"}).fill(SecuritySettings)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.conf", tmp_path):
        with pytest.raises(ConfigError, match=f"{path}: cannot be read"):
            load_config(path)


def test_every_key_sets_a_field_of_some_settings() -> None:
    known = {field.name for settings in SETTINGS for field in fields(settings)}
    assert not [key.name for key in KEYS.values() if not known.issuperset(key.fields)]


def test_every_field_named_like_a_java_key_can_be_set() -> None:
    """A field that no key sets is either fixed by the server or has no counterpart in Java."""
    settable = {field for key in KEYS.values() for field in key.fields}
    unset = {field.name for settings in SETTINGS for field in fields(settings)} - settable
    assert unset == {
        "journal_directories",
        "ledger_directories",
        "allow_storage_expansion",
        "force_read_only_bookie",
        "journal_batch_max_kb",
        "journal_queue_max_mb",
        "read_ahead_kb",
        "waiting_adds_max_mb",
        "entry_block_kb",
        "open_entry_logs",
        "min_usable_size_for_writes_mb",
        "lagging_bytes_max",
        "striped_reads_max",
        "recovery_reads_max",
        "recovery_adds_max",
        "skip_given_up_entries",
        # Settings of the ledger client that only other programs set, and of topics that policies set:
        "bookie_errors_interval_sec",
        "bookie_errors_max",
        "bookie_health_check",
        "isolation_groups",
        "rack_aware",
        "region_aware",
        "secondary_isolation_groups",
        "bookie_quarantine_time_sec",
        "enforce_min_num_racks_per_write_quorum",
        "explicit_lac_interval_sec",
        "message_ttl_seconds",
        "min_num_racks_per_write_quorum",
        "speculative_read_timeout_sec",
    }


def test_defaults_are_within_the_ranges_of_their_keys() -> None:
    defaults = {field.name: field.default for settings in SETTINGS for field in fields(settings)}
    for key in KEYS.values():
        default = defaults[key.fields[0]]
        if default == key.empty:
            continue
        text = ",".join(default) if isinstance(default, tuple) else str(default)
        if isinstance(default, bool):
            text = text.lower()
        if text:
            assert key.parse(text) == default, key.name


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("maxMessageSize", "max_message_size"),
        ("journalMaxSizeMB", "journal_max_size_mb"),
        ("dbStorage_writeCacheMaxSizeMb", "db_storage_write_cache_max_size_mb"),
        ("brokerMaxConnectionsPerIp", "broker_max_connections_per_ip"),
    ],
)
def test_fields_are_the_snake_case_of_keys(name: str, field: str) -> None:
    assert snake_case(name) == field


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a = 1  ", {"a": "1"}),
        ("a: 1\nb 2\nc\t=\t3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n! b=2\n\n  # c=3", {}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x,\\\n   y,\\\n   z\nb=1", {"a": "x,y,z", "b": "1"}),
        ("a=x\\", {"a": "x"}),
        ("a=C:\\\\dir\\\\\nb=1", {"a": "C:\\dir\\", "b": "1"}),
        (r"a\=b=\u0041\t\q", {"a=b": "A\tq"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a\f=\f1", {"a": "1"}),
    ],
)
def test_property_files_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert {key: assignment.value for key, assignment in parse_properties(text, "f").items()} == expected


def test_places_count_lines_from_1_and_name_the_first_of_joined_ones() -> None:
    assignments = parse_properties("a=1\n\nb=2\\\n3\nc=4", "f.conf")
    assert [assignment.place for assignment in assignments.values()] == ["f.conf:1", "f.conf:3", "f.conf:5"]
