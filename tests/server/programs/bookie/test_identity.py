"""A bookie's id and address follow from the configuration as Apache's do."""

import socket
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.bookie_settings import service_uri, storage_config
from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.programs.bookie.bookie_identity import BookieIdentity, IdentityError, bind_hosts, identity_of
from pulsar_proto.pb import bookkeeper_pb2 as pb


def config(**values: Any) -> BookieServerConfig:
    return BookieServerConfig(**values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"advertised_address": "10.0.0.7"}, BookieIdentity("10.0.0.7:3181", "10.0.0.7", 3181)),
        ({"advertised_address": "bk.example"}, BookieIdentity("bk.example:3181", "bk.example", 3181)),
        ({"advertised_address": "127.0.0.1"}, BookieIdentity("127.0.0.1:3181", "127.0.0.1", 3181)),
        ({"advertised_address": "h", "bookie_id": "rack1-a"}, BookieIdentity("rack1-a", "h", 3181)),
        ({"listening_interface": "lo", "allow_loopback": True}, BookieIdentity("127.0.0.1:3181", "127.0.0.1", 3181)),
    ],
)
def test_the_id_is_the_advertised_address_unless_it_is_set(values: dict[str, Any], expected: BookieIdentity) -> None:
    assert identity_of(config(**values), 3181) == expected


def test_a_host_name_is_used_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda address: "bk1.example.org")
    values = {"listening_interface": "lo", "allow_loopback": True, "use_host_name_as_bookie_id": True}
    assert identity_of(config(**values), 1).bookie_id == "bk1.example.org:1"
    assert identity_of(config(**values, use_short_host_name=True), 1).bookie_id == "bk1:1"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"listening_interface": "lo"}, "loopback one, 127.0.0.1.*allowLoopback=true"),
        ({"listening_interface": "nosuch0", "advertised_address": ""}, "'nosuch0' has no IPv4 address.*there are: "),
        ({"advertised_address": "h", "bookie_id": "a b"}, "'a b' is not a valid bookie id"),
        ({"advertised_address": "h", "bookie_id": "readonly"}, "'readonly' is not a valid bookie id"),
    ],
)
def test_what_cannot_be_an_id_is_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(IdentityError, match=reason):
        identity_of(config(**values), 3181)


def test_an_interface_narrows_where_the_port_is_open() -> None:
    assert bind_hosts(config(listening_interface="lo")) == ("127.0.0.1",)
    assert bind_hosts(config())[-1] == "0.0.0.0"


def test_clients_find_the_port_in_the_registered_record() -> None:
    info = pb.BookieServiceInfoFormat.FromString(BookieIdentity("b", "h", 3181).service_info(8080))
    rpc, http = info.endpoints
    assert (rpc.id, rpc.host, rpc.port, rpc.protocol) == ("bookie", "h", 3181, "bookie-rpc")
    assert (http.id, http.port, http.protocol) == ("httpserver", 8080, "http")
    golden = "32220a06626f6f6b696510ed181a093132372e302e302e31220a626f6f6b69652d727063"
    assert BookieIdentity("x", "127.0.0.1", 3181).service_info().hex() == golden


def test_apaches_file_configures_ours(tmp_path: Path) -> None:
    conf = tmp_path / "bk_server.conf"
    conf.write_text(
        "bookiePort=3182\nadvertisedAddress=\njournalDirectories=/j1, /j2\nledgerDirectories=/a,/b\n"
        "zkServers=zk1:2181,zk2:2181\nzkLedgersRootPath=/chroot/ledgers\ndiskUsageThreshold=0.9\n"
        "forceReadOnlyBookie=true\nnumAddWorkerThreads=1\n"
    )
    loaded = load_config(conf, {"allowLoopback": "true"}, BOOKIE_KEYS)
    process = loaded.fill(BookieServerConfig)
    assert (process.bookie_port, process.allow_loopback) == (3182, True)
    assert service_uri(loaded, process).connect == "zk1:2181,zk2:2181/chroot"
    storage = storage_config(loaded, process)
    assert storage.journal_directories == ("/j1", "/j2")
    assert storage.ledger_directories == ("/a", "/b")
    assert (storage.disk_usage_threshold, storage.disk_usage_lwm_threshold) == (0.9, 0.9)
    assert storage.force_read_only_bookie
    assert storage.gc_wait_time == 900_000
    older = load_config(None, {"journalDirectory": "/old"}, BOOKIE_KEYS)
    assert storage_config(older, older.fill(BookieServerConfig)).journal_directories == ("/old",)
    both = load_config(None, {"journalDirectories": "/new", "journalDirectory": "/old"}, BOOKIE_KEYS)
    assert storage_config(both, both.fill(BookieServerConfig)).journal_directories == ("/new",)
    skipping = load_config(None, {"skipDamagedJournal": "true"}, BOOKIE_KEYS)
    with pytest.raises(ConfigError, match="skipDamagedJournal=true: not for a bookie of a cluster"):
        storage_config(skipping, skipping.fill(BookieServerConfig))
    other = load_config(None, {"metadataServiceUri": "zk+hierarchical://h:1/other"}, BOOKIE_KEYS)
    with pytest.raises(ConfigError, match="must end in /ledgers"):
        service_uri(other, other.fill(BookieServerConfig))
    with pytest.raises(ConfigError, match="a list of different directories"):
        load_config(None, {"ledgerDirectories": "/a,/a"}, BOOKIE_KEYS)


@pytest.mark.parametrize(
    "setting",
    [
        {"bookieAuthProviderFactoryClass": "org.example.Auth"},
        {"zkEnableSecurity": "true"},
    ],
)
def test_a_protection_that_is_missing_is_not_silently_ignored(setting: dict[str, str]) -> None:
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name}=.*this version does not have that yet"):
        load_config(None, setting, BOOKIE_KEYS)
    load_config(None, {"bookieAuthProviderFactoryClass": "null", "zkEnableSecurity": "false"}, BOOKIE_KEYS)


PULSARS_FILE = """\
bookiePort=3181
journalDirectory=data/bookkeeper/journal
minUsableSizeForIndexFileCreation=1073741824
advertisedAddress=
allowLoopback=false
flushInterval=60000
useHostNameAsBookieID=false
gcWaitTime=900000
gcOverreplicatedLedgerWaitTime=86400000
numAddWorkerThreads=0
numReadWorkerThreads=8
maxPendingReadRequestsPerThread=2500
autoRecoveryDaemonEnabled=true
useV2WireProtocol=true
nettyMaxFrameSizeBytes=5253120
journalMaxSizeMB=2048
journalMaxBackups=5
journalSyncData=true
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
ledgerDirectories=data/bookkeeper/ledgers
zkLedgersRootPath=/ledgers
logSizeLimit=1073741824
minorCompactionThreshold=0.2
minorCompactionInterval=3600
majorCompactionThreshold=0.5
majorCompactionInterval=86400
compactionRateByBytes=1000000
readOnlyModeEnabled=true
diskCheckInterval=10000
metadataServiceUri=
zkServers=localhost:2181
zkTimeout=30000
httpServerEnabled=false
dbStorage_writeCacheMaxSizeMb=
dbStorage_readAheadCacheMaxSizeMb=
"""


def test_pulsars_bookkeeper_conf_configures_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "bookkeeper.conf"
    conf.write_text(PULSARS_FILE)
    loaded = load_config(conf, {}, BOOKIE_KEYS)
    process = loaded.fill(BookieServerConfig)
    assert (process.bookie_port, process.zk_timeout, process.netty_max_frame_size_bytes) == (3181, 30_000, 5_253_120)
    assert service_uri(loaded, process).connect == "localhost:2181"
    storage = storage_config(loaded, process)
    assert storage.journal_directories == ("data/bookkeeper/journal",)
    assert (storage.journal_max_size_mb, storage.log_size_limit) == (2048, 1 << 30)
    assert "journalSyncData" in caplog.text
    for honoured in ("zkServers", "gcOverreplicatedLedgerWaitTime", "zkTimeout", "httpServerEnabled"):
        assert honoured not in caplog.text
