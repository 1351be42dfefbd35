"""What auto-recovery takes from a bk_server.conf."""

from pathlib import Path

import pytest

from magnetar.server.config.autorecovery_settings import AUTORECOVERY_KEYS, autorecovery_settings
from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig

CONF = """\
metadataServiceUri=zk+hierarchical://zk1:2181;zk2:2181/ledgers
lostBookieRecoveryDelay=600
auditorPeriodicCheckInterval=0
openLedgerRereplicationGracePeriod=1000
replicationRateByBytes=0
rereplicationEntryBatchSize=10
addEntryTimeoutSec=20
useV2WireProtocol=false
"""


@pytest.mark.parametrize("keys", [AUTORECOVERY_KEYS, BOOKIE_KEYS], ids=["autorecovery", "bookie"])
def test_the_keys_of_bk_server_conf_count_in_a_process_of_its_own_and_in_a_bookie(
    tmp_path: Path, keys: dict[str, object]
) -> None:
    conf = tmp_path / "bk_server.conf"
    conf.write_text(CONF)
    settings = autorecovery_settings(load_config(conf, keys=keys))  # type: ignore[arg-type]
    assert settings.recovery.lost_bookie_recovery_delay == 600
    assert settings.recovery.auditor_periodic_check_interval == 0
    assert settings.recovery.open_ledger_rereplication_grace_period == 1000
    assert settings.recovery.rereplication_entry_batch_size == 10
    assert settings.recovery.replication_rate_by_bytes == -1
    assert (settings.ledger.add_entry_timeout_sec, settings.ledger.read_entry_timeout_sec) == (20, 5)
    assert (settings.wire.add_entry_timeout_sec, settings.wire.use_v2_wire_protocol) == (20, False)


def test_without_keys_the_defaults_are_apaches() -> None:
    settings = autorecovery_settings(load_config(keys=AUTORECOVERY_KEYS))
    assert settings.recovery == AutoRecoveryConfig()
    assert settings.ledger.add_entry_timeout_sec == 5


def test_a_value_out_of_range_is_named() -> None:
    with pytest.raises(ConfigError, match="auditorLedgerVerificationPercentage=101"):
        load_config(overrides={"auditorLedgerVerificationPercentage": "101"}, keys=AUTORECOVERY_KEYS)


@pytest.mark.parametrize("field", ["ledgers_at_once", "rw_rereplicate_backoff_ms", "replication_rate_by_bytes"])
def test_settings_that_make_no_sense_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        AutoRecoveryConfig(**{field: 0})
