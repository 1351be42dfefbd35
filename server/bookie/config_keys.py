"""The keys of bk_server.conf that `magnetar bookie` honours: its process's, and its storage's."""

from server.config_keys import BOOKIE, MAX_FRAME_BYTES, MAX_INT, Key, Value, _switch, _text, _whole
from server.repair.config_keys import CLIENT, REPAIR

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
    """A protection that this version does not have and that nobody may believe to be on."""

    def parse(text: str) -> Value:
        if text.lower() not in ("null", "false"):
            raise ValueError(text)
        return text

    return Key(name, (), parse, f"nothing: this version does not have that yet, {what}")


PROCESS = (
    _text("metadataServiceUri", _ANY, "a URI such as zk+hierarchical://host:2181/ledgers"),
    _text("zkServers", _ANY, "a list of host:port, with commas"),
    _text("zkLedgersRootPath", r"/.*", "a path"),
    _whole("zkTimeout", 100, MAX_INT, "milliseconds"),
    _whole("bookiePort", 0, 65_535),
    _text("listeningInterface", r"[\w.:@\-]+", "the name of a network interface"),
    _text("advertisedAddress", _HOST, "a host name or address"),
    _text("bookieId", _ANY, "a bookie id"),
    _switch("useHostNameAsBookieID"),
    _switch("useShortHostName"),
    _switch("allowLoopback"),
    _directories("journalDirectory", "journal_directory"),
    _directories("journalDirectories", "journal_directories"),
    _directories("ledgerDirectories", "ledger_directories"),
    _switch("readOnlyModeEnabled"),
    _switch("autoRecoveryDaemonEnabled"),
    _whole("gcOverreplicatedLedgerWaitTime", 1, MAX_INT, "milliseconds"),
    _switch("httpServerEnabled"),
    _text("httpServerHost", _HOST, "a host name or address"),
    _whole("httpServerPort", 0, 65_535),
    _switch("enableStatistics"),
    _text("statsProviderClass", r"[\w.$]+", "the name of a class"),
    _switch("prometheusStatsHttpEnable"),
    _text("prometheusStatsHttpAddress", _HOST, "a host name or address"),
    _whole("prometheusStatsHttpPort", 0, 65_535),
    _whole("nettyMaxFrameSizeBytes", 1024, MAX_FRAME_BYTES, "bytes"),
)

STORAGE = (
    *BOOKIE,
    _switch("allowStorageExpansion"),
    _switch("forceReadOnlyBookie"),
)

MISSING = (
    _missing("bookieAuthProviderFactoryClass", "every client would be let in"),
    _missing("tlsProviderFactoryClass", "nothing would be encrypted"),
    _missing("zkEnableSecurity", "ZooKeeper's records would be open to everybody"),
)

BOOKIE_KEYS: dict[str, Key] = {
    key.name: key for section in (PROCESS, STORAGE, REPAIR, CLIENT, MISSING) for key in section
}
