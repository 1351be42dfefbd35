"""Decides the parts of a cluster on one machine: names, ports, numbers of copies, and the command line of each child.
No I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magnetar.metadata import cluster_setup
from magnetar.server.process.log_lines import TEXT
from pulsar_proto.counted import counted

COPIES_MAX = 3
"""The most bookies that hold an entry, unless the configuration says otherwise."""
DEFAULT_CLUSTER = "pulsar-cluster"
LOOPBACK = "127.0.0.1"
"""The address on which bookies and metadata listen. They have no authentication, and only processes of this machine
need to reach them."""
ALL_ADDRESSES = ("0.0.0.0", "::", "")
MEMBERS_MAX = 64
"""The most brokers, and the most bookies, of one machine."""

BROKER, BOOKIE, METADATA = "broker", "bookie", "metadata"

QUORUM_KEYS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)
PORT_KEYS_TLS = ("brokerServicePortTls", "webServicePortTls")
OWN_KEYS = (
    "metadataStoreUrl",
    "configurationMetadataStoreUrl",
    "zookeeperServers",
    "configurationStoreServers",
    "clusterName",
    "brokerServicePort",
    "webServicePort",
)
"""The keys of a broker that the supervisor sets, whatever the configuration says."""
BOOKIE_DEFAULTS = {"lostBookieRecoveryDelay": "60", "minUsableSizeForHighPriorityWrites": str(1 << 20)}
"""The defaults for bookies. A bookie that dies is restarted within seconds, so auto-recovery waits before it copies all
ledgers of that bookie. A full disk is that of all bookies, and after a crash a topic is readable only when the end of
its last ledger is recovered: the room that starts give up from their reserves is enough for that."""


class ClusterLayoutError(Exception):
    """The data folder has another cluster than the requested one. The text is the sentence for the user."""


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one broker: binary protocol and HTTP."""

    broker: int
    web: int


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The part of the cluster's configuration that is stored in the data folder, so that every start uses the same
    ports, ledgers and records."""

    cluster: str
    metadata_port: int = 0
    """The port of the cluster's own metadata server; 0 when the metadata is elsewhere, at `metadata_url`."""
    metadata_url: str = ""
    brokers: tuple[BrokerPorts, ...] = ()
    bookies: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the layout in its stored form."""
        where: dict[str, Any] = {"url": self.metadata_url} if self.metadata_url else {"port": self.metadata_port}
        return {
            "cluster": self.cluster,
            "metadata": where,
            "bookies": [{"port": port} for port in self.bookies],
            "brokers": [{"brokerPort": ports.broker, "webPort": ports.web} for ports in self.brokers],
        }

    @classmethod
    def from_json(cls, data: Any) -> "ClusterLayout":
        """Parses the stored form that `to_json` returns. Raises KeyError, TypeError or ValueError for any other
        data."""
        where = data["metadata"]
        return cls(
            cluster=str(data["cluster"]),
            metadata_port=int(where.get("port", 0)),
            metadata_url=str(where.get("url", "")),
            brokers=tuple(BrokerPorts(int(each["brokerPort"]), int(each["webPort"])) for each in data["brokers"]),
            bookies=tuple(int(each["port"]) for each in data["bookies"]),
        )


@dataclass(frozen=True, slots=True)
class Wishes:
    """The requests of the command line. With a base port of 0 the supervisor chooses the ports."""

    brokers: int = 2
    bookies: int = 3
    cluster: str = ""
    metadata_url: str = ""
    broker_port: int = 0
    web_port: int = 0


def lay_out(known: ClusterLayout | None, wishes: Wishes, free: Callable[[], int]) -> ClusterLayout:
    """Returns the layout of the coming run: the layout in the data folder, changed by the requests of the command line.

    `free` returns an unused port, a different one at each call. Bookies may be added but never removed, because they
    have ledgers. Raises ClusterLayoutError when the requests contradict the stored layout.
    """
    cluster = wishes.cluster or (known.cluster if known else DEFAULT_CLUSTER)
    metadata_url = wishes.metadata_url or (known.metadata_url if known else "")
    if known is not None:
        if cluster != known.cluster:
            raise ClusterLayoutError(f"the data folder holds the cluster {known.cluster!r}, not {cluster!r}")
        if metadata_url != known.metadata_url:
            where = known.metadata_url or "the data folder itself"
            raise ClusterLayoutError(f"the metadata of this data folder's cluster is in {where}, not in {metadata_url}")
        if wishes.bookies < len(known.bookies):
            raise ClusterLayoutError(
                f"the data folder has {counted(len(known.bookies), 'bookie')} with ledgers on them, and --bookies "
                f"{wishes.bookies} would leave some out"
            )
    bookies = known.bookies if known else ()
    brokers = known.brokers if known else ()
    return ClusterLayout(
        cluster,
        metadata_port=0 if metadata_url else (known.metadata_port if known else 0) or free(),
        metadata_url=metadata_url,
        brokers=tuple(
            _broker_ports(number, brokers[number] if number < len(brokers) else None, wishes, free)
            for number in range(max(wishes.brokers, len(brokers)))
        ),
        bookies=(*bookies, *(free() for _ in range(wishes.bookies - len(bookies)))),
    )


def _broker_ports(number: int, known: BrokerPorts | None, wishes: Wishes, free: Callable[[], int]) -> BrokerPorts:
    broker = wishes.broker_port + number if wishes.broker_port else known.broker if known else free()
    web = wishes.web_port + number if wishes.web_port else known.web if known else free()
    return BrokerPorts(broker, web)


def copies_for(bookies: int) -> tuple[int, int, int]:
    """Returns ensemble size, write quorum and ack quorum for so many bookies. With several bookies, two copies are
    durable before a producer gets its receipt. From three bookies on, one bookie is a spare, so that the death of a
    bookie stops no ledger."""
    copies = bookies if bookies <= 2 else min(bookies - 1, COPIES_MAX)
    return copies, copies, min(copies, 2)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All data for the children's command lines."""

    data_dir: Path
    layout: ClusterLayout
    brokers: int
    host: str = LOOPBACK
    """The address that the brokers listen on."""
    loopback_interface: str = "lo"
    broker_conf: Path | None = None
    broker_given: Mapping[str, str] = field(default_factory=dict)
    """The keys that the broker's configuration file sets."""
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    bookie_conf: Path | None = None
    bookie_given: Mapping[str, str] = field(default_factory=dict)
    bookie_settings: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "INFO"
    log_format: str = TEXT

    @property
    def connect(self) -> str:
        """The connect string of the metadata."""
        if self.layout.metadata_url:
            return self.layout.metadata_url.removeprefix("zk:")
        return f"{LOOPBACK}:{self.layout.metadata_port}"

    @property
    def metadata_url(self) -> str:
        return f"zk:{self.connect}"

    def records(self) -> cluster_setup.ClusterPlan:
        """Returns the plan of the cluster's first records, whose URLs name all brokers."""
        running = self.layout.brokers[: self.brokers]
        servers, _, chroot = self.connect.partition("/")
        host = self.advertised_host
        return cluster_setup.ClusterPlan(
            self.layout.cluster,
            {
                "brokerServiceUrl": "pulsar://" + ",".join(f"{host}:{each.broker}" for each in running),
                "serviceUrl": "http://" + ",".join(f"{host}:{each.web}" for each in running),
            },
            cluster_setup.LedgersPlace(servers, f"/{chroot}/ledgers" if chroot else "/ledgers"),
        )

    @property
    def advertised_host(self) -> str:
        """The host that clients of the brokers connect to, unless the configuration names another host."""
        return LOOPBACK if self.host in ALL_ADDRESSES else self.host

    def folder(self, kind: str, number: int = 0) -> Path:
        """Returns the folder of a child."""
        return self.data_dir / name_of(kind, number)

    def metadata_words(self) -> list[str]:
        """Returns the command line of the metadata server, after `magnetar`."""
        words = ["zookeeper", "--data-dir", str(self.folder(METADATA)), "--port", str(self.layout.metadata_port)]
        return [*words, *_sets({"clientPortAddress": LOOPBACK}), *self._common()]

    def bookie_words(self, number: int) -> list[str]:
        """Returns the command line of a bookie, after `magnetar`."""
        folder = self.folder(BOOKIE, number)
        given = {**self.bookie_given, **self.bookie_settings}
        servers, slash, chroot = self.connect.partition("/")
        defaults = {**BOOKIE_DEFAULTS, "advertisedAddress": LOOPBACK, "listeningInterface": self.loopback_interface}
        settings = {
            **{key: value for key, value in defaults.items() if key not in given},
            **self.bookie_settings,
            "metadataServiceUri": f"zk+hierarchical://{servers.replace(',', ';')}{slash}{chroot}/ledgers",
            "bookiePort": str(self.layout.bookies[number]),
            "journalDirectories": str(folder / "journal"),
            "ledgerDirectories": str(folder / "ledgers"),
        }
        return ["bookie", *_conf(self.bookie_conf), *_sets(settings), *self._common()]

    def broker_words(self, number: int) -> list[str]:
        """Returns the command line of a broker, after `magnetar`."""
        ports = self.layout.brokers[number]
        given = {**self.broker_given, **self.broker_settings}
        copies = zip(QUORUM_KEYS, map(str, copies_for(len(self.layout.bookies))), strict=True)
        defaults = {"bindAddress": self.host}
        if not given.get("advertisedListeners"):  # The two keys exclude each other.
            defaults["advertisedAddress"] = self.advertised_host
        settings = {
            **({} if any(key in given for key in QUORUM_KEYS) else dict(copies)),
            **{key: value for key, value in defaults.items() if key not in given},
            **{key: value for key, value in self.broker_settings.items() if key not in OWN_KEYS},
            **{key: str(int(given[key]) + number) for key in PORT_KEYS_TLS if _is_port(given.get(key, ""))},
            "metadataStoreUrl": self.metadata_url,
            "configurationMetadataStoreUrl": self.metadata_url,
            "clusterName": self.layout.cluster,
            "brokerServicePort": str(ports.broker),
            "webServicePort": str(ports.web),
        }
        return ["broker", *_conf(self.broker_conf), *_sets(settings), *self._common()]

    def _common(self) -> Iterator[str]:
        return iter(("--ready-json", "--log-level", self.log_level, "--log-format", self.log_format))


def name_of(kind: str, number: int = 0) -> str:
    """Returns the name of a child, which is used in the log and for its folder."""
    return kind if kind == METADATA else f"{kind}-{number + 1}"


def ready_document(
    brokers: Sequence[Mapping[str, Any]], bookies: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the supervisor's ready line for programs, made from the ready lines of the children."""
    urls = ("brokerServiceUrl", "brokerServiceUrlTls", "webServiceUrl", "webServiceUrlTls")
    return {
        "brokers": [
            {**{name: each[name] for name in urls if each.get(name)}, "pid": each.get("pid")} for each in brokers
        ],
        "bookies": [{"address": each.get("bookieId"), "pid": each.get("pid")} for each in bookies],
        "metadata": dict(metadata),
    }


def _is_port(text: str) -> bool:
    """Returns whether the text is a port other than 0. Such a port is counted up from broker to broker, because two
    brokers cannot share it."""
    return text.isdecimal() and int(text) > 0


def _conf(file: Path | None) -> list[str]:
    return [] if file is None else ["--conf", str(file)]


def _sets(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
