"""The keys of bk_server.conf that `magnetar bookie` honours."""

from magnetar.server.config.autorecovery_keys import CLIENT, REPAIR
from magnetar.server.config.bookie_tls_keys import BOOKIE_TLS
from magnetar.server.config.honoured_keys import BOOKIE
from magnetar.server.config.key_kinds import MAX_FRAME_BYTES, MAX_INT, Key, Value, switch, text, whole

_HOST = r"[A-Za-z0-9_.:%\-]+"
_ANY = r".+"


def _directories(name: str, field: str) -> Key:
    def parse(text: str) -> Value:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if not items or len(set(items)) != len(items):
            raise ValueError(text)
        return items

    return Key(name, (field,), parse, "a list of different directories, with commas")


def _missing(name: str, what: str) -> Key:
    """Returns the key of a protection that this server lacks. Any value but "null" and "false" is refused, so that
    nobody believes that the protection is on."""

    def parse(text: str) -> Value:
        if text.lower() not in ("null", "false"):
            raise ValueError(text)
        return text

    return Key(name, (), parse, f"nothing: this version does not have that yet, {what}")


PROCESS = (
    text("metadataServiceUri", _ANY, "a URI such as zk+hierarchical://host:2181/ledgers"),
    text("zkServers", _ANY, "a list of host:port, with commas"),
    text("zkLedgersRootPath", r"/.*", "a path"),
    whole("zkTimeout", 100, MAX_INT, "milliseconds"),
    whole("bookiePort", 0, 65_535),
    text("listeningInterface", r"[\w.:@\-]+", "the name of a network interface"),
    text("advertisedAddress", _HOST, "a host name or address"),
    text("bookieId", _ANY, "a bookie id"),
    switch("useHostNameAsBookieID"),
    switch("useShortHostName"),
    switch("allowLoopback"),
    _directories("journalDirectory", "journal_directory"),
    _directories("journalDirectories", "journal_directories"),
    _directories("ledgerDirectories", "ledger_directories"),
    switch("readOnlyModeEnabled"),
    switch("autoRecoveryDaemonEnabled"),
    whole("gcOverreplicatedLedgerWaitTime", 1, MAX_INT, "milliseconds"),
    switch("httpServerEnabled"),
    text("httpServerHost", _HOST, "a host name or address"),
    whole("httpServerPort", 0, 65_535),
    switch("enableStatistics"),
    text("statsProviderClass", r"[\w.$]+", "the name of a class"),
    switch("prometheusStatsHttpEnable"),
    text("prometheusStatsHttpAddress", _HOST, "a host name or address"),
    whole("prometheusStatsHttpPort", 0, 65_535),
    whole("nettyMaxFrameSizeBytes", 1024, MAX_FRAME_BYTES, "bytes"),
)

STORAGE = (
    *BOOKIE,
    switch("allowStorageExpansion"),
    switch("forceReadOnlyBookie"),
)

MISSING = (
    _missing("bookieAuthProviderFactoryClass", "every client would be let in"),
    _missing("zkEnableSecurity", "ZooKeeper's records would be open to everybody"),
)

BOOKIE_KEYS: dict[str, Key] = {
    key.name: key for section in (PROCESS, STORAGE, REPAIR, CLIENT, BOOKIE_TLS, MISSING) for key in section
}
