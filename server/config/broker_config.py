"""The server's configuration: a file that was written for Apache's servers, and overrides. File and overrides are
checked once, at the start.

Only the keys of `honoured_keys` have an effect. A key of UNSAFE_TO_IGNORE that is set to true refuses the start; a
warning names all other keys that have a value. An honoured key without a value keeps its default, unless its
`Key.empty` gives another value. Each part of the server has a settings class of its own, which `ServerConfig.fill`
makes from the values that were set.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from magnetar.server.config.honoured_keys import KEYS, NOT_ABOVE, UNSAFE_TO_IGNORE
from magnetar.server.config.key_kinds import PORT_OFF, Key, Value
from magnetar.server.config.missed_keys import NOT_HERE
from magnetar.server.config.properties_file import Assignment, parse_properties
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

log = logging.getLogger(__name__)

OVERRIDE_PLACE = "--set"

LIKENESS_MIN = 0.8
"""How much an unknown key must resemble a known key, from 0 to 1 (difflib), to be reported as a misspelling of that
key."""

Settings = TypeVar("Settings")


class ConfigError(Exception):
    """The configuration cannot be used. The text has one line for each fault, with its place, key and value."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings that concern the server as a whole. Each field has the snake_case name of a key in broker.conf."""

    cluster_name: str = "standalone"
    """The name of the cluster that this server is, or belongs to."""
    broker_service_port: int = 6650
    """The port of the binary protocol. 0 picks a free port, and an empty value opens no port."""
    broker_service_port_tls: int = PORT_OFF
    """The port of the binary protocol over TLS, usually 6651."""
    web_service_port: int = 8080
    """The HTTP port. 0 picks a free port, and an empty value opens no port."""
    web_service_port_tls: int = PORT_OFF
    """The HTTPS port, usually 8443."""
    bind_address: str = "127.0.0.1"
    """The address to listen on. Apache's default is 0.0.0.0. The default here makes the server reachable from this
    machine only, because without authentication everybody who reaches the port may do everything."""
    advertised_address: str = ""
    """The host to which clients are told to connect. If this is empty, `bind_address` decides."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The configured values. `values` holds them by field name, and `places` holds the place of each value, as in
    "broker.conf:12: maxMessageSize=1"."""

    broker: BrokerConfig
    values: Mapping[str, Value]
    places: Mapping[str, str]

    def fill(self, kind: type[Settings], **fixed: object) -> Settings:
        """Returns an instance of the settings class `kind`. Configured fields have their values, and all other fields
        have their defaults; `fixed` outranks values and defaults. Raises ConfigError when the class refuses the
        combination."""
        known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        chosen: dict[str, Any] = {name: value for name, value in self.values.items() if name in known}
        try:
            return kind(**(chosen | fixed))
        except ValueError as error:
            places = sorted({self.places[name] for name in chosen if name in str(error)})
            raise ConfigError(f"{', '.join(places) or 'configuration'}: {error}") from error

    def bookie(self, *, journal_directories: tuple[Path, ...], ledger_directories: tuple[Path, ...]) -> BookieConfig:
        """Returns the settings of a bookie's storage in these folders. Raises ConfigError."""
        fixed: dict[str, object] = {
            "journal_directories": tuple(map(os.fspath, journal_directories)),
            "ledger_directories": tuple(map(os.fspath, ledger_directories)),
        }
        threshold = self.values.get("disk_usage_threshold")
        if isinstance(threshold, float) and "disk_usage_lwm_threshold" not in self.values:
            # Without a low-water mark, BookKeeper takes the threshold (ServerConfiguration). Here the mark is at most
            # our default.
            default: Any = BookieConfig.__dataclass_fields__["disk_usage_lwm_threshold"].default
            fixed["disk_usage_lwm_threshold"] = min(threshold, default)
        return self.fill(BookieConfig, **fixed)

    def managed_ledgers(self, *, bookies: int | None = None) -> ManagedLedgerConfig:
        """Returns the settings of managed ledgers. If there are only `bookies` bookies, an ensemble or quorum that
        needs more bookies is cut down to that number, with a warning, so that a cluster's broker.conf can start a
        standalone server. Raises ConfigError."""
        config = self.fill(ManagedLedgerConfig)
        if bookies is None or config.managed_ledger_default_ensemble_size <= bookies:
            return config
        log.warning(
            "ensemble size, write and ack quorum %s are made for more bookies than the %d there is: using at most %d",
            "/".join(map(str, config.quorums)),
            bookies,
            bookies,
        )
        ensemble, write, ack = (min(number, bookies) for number in config.quorums)
        return replace(
            config,
            managed_ledger_default_ensemble_size=ensemble,
            managed_ledger_default_write_quorum=write,
            managed_ledger_default_ack_quorum=ack,
        )

    def transactions(self, *, is_standalone: bool) -> TransactionSettings:
        """Returns the settings of transactions. Unless the configuration says otherwise, transactions are on in a
        standalone server, where they cost nothing before a client uses them, and off in a cluster, as in Apache's."""
        is_on = self.values.get("transaction_coordinator_enabled", is_standalone)
        return self.fill(TransactionSettings, transaction_coordinator_enabled=is_on)


def load_config(
    path: Path | None = None, overrides: Mapping[str, str] | None = None, keys: Mapping[str, Key] = KEYS
) -> ServerConfig:
    """Reads the file, if there is one, and then the overrides, which outrank the file. Only `keys` have an effect.

    Raises ConfigError, which lists every fault: a file that cannot be read, a value out of its range, two values that
    contradict each other, or a protection that is switched on and that this server lacks.
    """
    assignments: dict[str, Assignment] = {} if path is None else parse_properties(_read(path), os.fspath(path))
    for name, text in (overrides or {}).items():
        assignments[name] = Assignment(text.strip(), OVERRIDE_PLACE)

    faults: list[str] = []
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    unused: dict[str, Assignment] = {}
    for name, (text, place) in assignments.items():
        key = keys.get(name)
        if key is None:
            if name in UNSAFE_TO_IGNORE and text.lower() == "true":
                faults.append(f"{place}: {name}={text}: this version does not have that yet: {UNSAFE_TO_IGNORE[name]}")
            elif text:
                unused[name] = Assignment(text, place)
        elif text or key.empty is not None:
            shown = "(hidden)" if key.is_secret else text
            try:
                value = key.empty if not text and key.empty is not None else key.parse(text)
                values |= dict.fromkeys(key.fields, value)
                places |= dict.fromkeys(key.fields, f"{place}: {name}={shown}")
            except ValueError:
                faults.append(f"{place}: {name}={shown}: expected {key.expected}")
    faults += _contradictions(values, places)
    if faults:
        raise ConfigError("\n".join(faults))
    if unused:
        _tell_unused(unused, keys)
    config = ServerConfig(BrokerConfig(), values, places)
    return replace(config, broker=config.fill(BrokerConfig))


def _tell_unused(unused: Mapping[str, Assignment], keys: Mapping[str, Key]) -> None:
    """Logs the keys without effect: a line for each key that clients will miss, one line for the other keys that
    Apache knows or that are in KEYS, and one for all other keys. Values are not logged, because they may be
    secrets."""
    from magnetar.server.config.known_keys import FAMILIES, KNOWN

    quiet, unknown = [], []
    for name, (text, place) in unused.items():
        missing = NOT_HERE.get(name)
        if missing is not None and missing.matters(text):
            log.warning("%s: %s is not honoured in this version: %s", place, name, missing.says)
        elif name in KNOWN or name in KEYS or name.startswith(FAMILIES):
            quiet.append(name)
        else:
            unknown.append(_with_likely(name, {*KNOWN, *keys}))
    if quiet:
        log.warning("without effect in this version: %s", ", ".join(quiet))
    if unknown:
        log.warning("unknown keys, which Apache does not know either: %s", ", ".join(unknown))


def _with_likely(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    likely = get_close_matches(name, known, n=1, cutoff=LIKENESS_MIN)
    return f"{name} (is it {likely[0]}?)" if likely else name


def _contradictions(values: Mapping[str, Value], places: Mapping[str, str]) -> list[str]:
    faults = []
    for small, large in NOT_ABOVE:
        low, high = KEYS[small].fields[0], KEYS[large].fields[0]
        if low in values and high in values and values[low] > values[high]:  # type: ignore[operator]
            faults.append(f"{places[low]}: must not exceed {large}={values[high]}")
    return faults


def _read(path: Path) -> str:
    try:
        # Java reads Latin-1, in which every byte is a character, so no file is refused for its encoding.
        return path.read_bytes().decode("latin-1")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
